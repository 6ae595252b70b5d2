// What a home does: takes applications, and makes communicators of those that have all come.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/formation/membership.h"
#include "daemon/formation/membership_requests.h"
#include "daemon/multihost/host_group.h"
#include "daemon/multihost/network_runner.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "daemon/tenant/rank_list.h"
#include "daemon/tenant/session_table.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// What a rank costs its tenant, in bytes, of which is remembered that it knows of a disagreement.
/// A place in a set takes less.
constexpr int64_t kToldRankBytes = 64;

/// What something that forms costs its tenant, in bytes, beside its ranks.
constexpr int64_t kFormationBytes = 1024;

/// Who asks for a place, as the ranks may know: "process 812".
std::string DescribeApplicant(const Applicant& applicant) {
  if (applicant.member != nullptr) {
    return fmt::format("process {}", applicant.member->session->process());
  }
  // Tenants are not told which host, or where it is.
  return applicant.peer == kThisDaemon ? "a process that is gone" : "a process on another host";
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// Applications

Status Membership::Apply(const ApplyMessage& request, Applicant applicant, Communicator* parent) {
  switch (request.kind) {
    case FormationKind::kJoin: return ApplyToJoin(request, std::move(applicant));
    case FormationKind::kJoinGrowth: return ApplyToJoinGrowth(request, std::move(applicant));
    default: break;
  }
  if (parent == nullptr) return InvalidUsage("the communicator is gone");
  if (parent->tenant().identity.across_hosts != request.user) {
    return InvalidUsage("the communicator belongs to another user");
  }
  if (request.rank < 0 || request.rank >= parent->ranks()) {
    return InvalidArgument("rank {} is not in a communicator of {} ranks", request.rank,
                           parent->ranks());
  }
  switch (request.kind) {
    case FormationKind::kSplit: return ApplyToSplit(request, std::move(applicant), *parent);
    case FormationKind::kShrink: return ApplyToShrink(request, std::move(applicant), *parent);
    case FormationKind::kGrow: return ApplyToGrow(request, std::move(applicant), *parent);
    default: return InvalidUsage("a rank applies for what does not exist");
  }
}

/// What forms by this key; for who comes first `make` makes it. It is there as a whole or, where
/// that throws or its tenant cannot pay for it, not at all.
template <typename Make>
Result<PendingFormation*> Membership::PendingAt(const FormationKey& key, Make make) {
  if (PendingFormation* const found = pending_.Find(key)) return found;
  PendingFormation made;
  make(made);
  Account& account = *made.formation->tenant().account;
  // A drawn id has been paid for when it was given out.
  if (key.kind != FormationKey::Kind::kSecretId) {
    HZ_ASSIGN_OR_RETURN(made.place, account.Take(Resource::kUniqueIds, 1));
  }
  const size_t calls = made.split_calls == nullptr ? 0 : made.split_calls->size();
  const auto bytes = kFormationBytes + static_cast<int64_t>(calls * sizeof(SplitCall));
  HZ_ASSIGN_OR_RETURN(made.memory, account.Take(Resource::kMemory, bytes));
  made.waiting = WaitingHold(*services_.communicator.waiting);
  PendingFormation& pending = pending_.Add(key, std::move(made));
  return &pending;
}

Status Membership::TakePlace(const FormationKey& key, size_t place, Applicant applicant) {
  Formation& formation = *pending_.Find(key)->formation;
  // Before the rank is there, and may be withdrawn.
  if (applicant.peer != kThisDaemon) pending_.NoteTicket(applicant.peer, applicant.ticket, key);
  HZ_RETURN_IF_ERROR(formation.Take(place, std::move(applicant)));
  if (formation.complete()) {
    const PendingFormation concluded = pending_.Take(key);
    // The formation goes, so an exception must not leave anybody with it.
    const Status status = Caught([&] { return concluded.conclude(*concluded.formation); });
    if (!status.ok()) FailFormation(*concluded.formation, status);
  }
  return Status::Ok();
}

// What the ranks of a formation must agree on. Where they do not it fails for all of them: those
// that wait, the one that applies, and those that come later.
Status Membership::CheckAgreement(const FormationKey& key, const ApplyMessage& request,
                                  const Applicant& applicant) {
  Formation& formation = *pending_.Find(key)->formation;
  const auto place = static_cast<size_t>(request.rank);
  const bool agrees = formation.places() == static_cast<size_t>(request.ranks);
  if (agrees && !formation.taken(place)) return Status::Ok();
  std::vector<size_t> waiting;
  for (const auto& [rank, other] : formation.taken()) waiting.push_back(rank);
  Status why;
  if (!agrees) {
    why = InvalidUsage(
        "the ranks disagree about their number: {} asked for a communicator of {} ranks, rank "
        "{} for one of {}; call again with the same number at all ranks",
        RankList(waiting), formation.places(), request.rank, request.ranks);
  } else {
    why = InvalidUsage(
        "rank {} was given twice, to {} and to {}: call again with a number of its own for "
        "every rank",
        request.rank, DescribeApplicant(formation.applicant(place)), DescribeApplicant(applicant));
  }
  std::set<int> told(waiting.begin(), waiting.end());
  told.insert(request.rank);
  Account& account = *formation.tenant().account;
  Result<Holding> remembered = account.Take(Resource::kUniqueIds, 1);
  Result<Holding> memory =
      account.Take(Resource::kMemory, kToldRankBytes * static_cast<int64_t>(told.size()));
  // Without these, ranks that come later wait until their formation ends by its time.
  if (remembered.ok() && memory.ok()) {
    FailedFormation& failed = failed_formations_[key];
    failed.why = why;
    failed.told = std::move(told);
    failed.ends_ns =
        MonotonicNanoseconds() + static_cast<uint64_t>(config_.formation_timeout_seconds * 1e9);
    failed.place = std::move(*remembered);
    failed.memory = std::move(*memory);
  }
  FailPending(key, why);
  return why;
}

Status Membership::CheckNotFailed(const FormationKey& key, int rank) {
  const auto found = failed_formations_.find(key);
  if (found == failed_formations_.end()) return Status::Ok();
  FailedFormation& failed = found->second;
  const bool knows = failed.told.contains(rank);
  // A rank that cannot be remembered is told again.
  if (!knows && failed.memory.Add(kToldRankBytes).ok()) failed.told.insert(rank);
  // A rank that comes back by a name, or to the same parent, begins anew. A drawn id is spent.
  const bool anew = knows && key.kind != FormationKey::Kind::kSecretId;
  if (!anew && MonotonicNanoseconds() < failed.ends_ns) return failed.why;
  failed_formations_.erase(found);
  return Status::Ok();
}

Status Membership::ApplyToJoin(const ApplyMessage& request, Applicant applicant) {
  const Result<UniqueId> id = IdOf(request);
  if (!id.ok()) return id.status();
  HZ_RETURN_IF_ERROR(CheckRanks(request.ranks, request.rank, 0));
  if (cluster_ == nullptr) {
    HZ_RETURN_IF_ERROR(CheckRanksOnHost(static_cast<size_t>(request.ranks)));
  }
  FormationKey key{FormationKey::Kind::kSecretId, *id};
  if (id->kind == UniqueId::Kind::kNamed) {
    key.kind = FormationKey::Kind::kNamedId;
    const Member* const member = applicant.member;
    key.tenant = member == nullptr ? request.user : member->session->tenant().identity.number;
  } else {
    HZ_RETURN_IF_ERROR(CheckIssued(*id, request.user, applicant));
  }
  HZ_RETURN_IF_ERROR(CheckNotFailed(key, request.rank));
  const auto made_join = PendingAt(key, [&](PendingFormation& made) {
    made.formation = std::make_unique<Formation>(
        key, "ncclCommInitRank", request.name,
        applicant.member == nullptr ? services_.tenants->AcrossHosts(request.user)
                                    : &applicant.member->session->tenant(),
        static_cast<size_t>(request.ranks), MonotonicNanoseconds());
    made.conclude = [this, id = *id](Formation& formation) {
      issued_.Erase(id);  // an id serves once
      return ConcludeOne(formation);
    };
  });
  HZ_RETURN_IF_ERROR(made_join.status());
  HZ_RETURN_IF_ERROR(CheckAgreement(key, request, applicant));
  return TakePlace(key, static_cast<size_t>(request.rank), std::move(applicant));
}

Status Membership::ApplyToSplit(const ApplyMessage& request, Applicant applicant,
                                Communicator& parent) {
  if (parent.state() == Communicator::State::kBroken) return parent.failure();
  const FormationKey key{FormationKey::Kind::kSplit, {}, 0, parent.id(), request.round};
  const auto places = static_cast<size_t>(parent.ranks());
  const PendingFormation* const begun = pending_.Find(key);
  for (size_t rank = 0; rank < places; ++rank) {
    // A rank that gets nothing may have called, and left, already.
    const bool called = begun != nullptr && begun->formation->taken(rank);
    if (!called && parent.HasLeft(static_cast<int>(rank))) {
      return RemoteError("rank {} has left the communicator, so it cannot be split", rank);
    }
  }
  const auto split = PendingAt(key, [&](PendingFormation& made) {
    made.formation = std::make_unique<Formation>(
        key, "ncclCommSplit", request.name.empty() ? parent.name() : request.name, &parent.tenant(),
        places, MonotonicNanoseconds());
    auto calls = std::make_shared<std::vector<SplitCall>>(places);
    made.split_calls = calls;
    made.conclude = [this, calls](Formation& formation) {
      return ConcludeSplit(formation, *calls);
    };
  });
  HZ_RETURN_IF_ERROR(split.status());
  const auto place = static_cast<size_t>(request.rank);
  (*(*split)->split_calls)[place] = {request.takes_part, request.color, request.key};
  if (!request.takes_part) applicant = {};
  return TakePlace(key, place, std::move(applicant));
}

Status Membership::ApplyToShrink(const ApplyMessage& request, Applicant applicant,
                                 Communicator& parent) {
  const std::vector<int>& excluded = request.excluded;
  if (!excluded.empty() && excluded.back() >= parent.ranks()) {
    return InvalidArgument("ncclCommShrink cannot exclude rank {} of {}", excluded.back(),
                           parent.ranks());
  }
  for (int rank = 0; rank < parent.ranks(); ++rank) {
    if (parent.HasLeft(rank) && !std::binary_search(excluded.begin(), excluded.end(), rank)) {
      return RemoteError("rank {} has left the communicator: exclude it from the shrink as well",
                         rank);
    }
  }
  const FormationKey key{FormationKey::Kind::kShrink, {}, 0, parent.id(), 0};
  const auto shrink = PendingAt(key, [&](PendingFormation& made) {
    made.formation = std::make_unique<Formation>(
        key, "ncclCommShrink", request.name.empty() ? parent.name() : request.name,
        &parent.tenant(), static_cast<size_t>(parent.ranks()), MonotonicNanoseconds());
    made.excluded = excluded;
    for (const int rank : excluded) made.formation->Excuse(static_cast<size_t>(rank));
    made.conclude = [this](Formation& formation) { return ConcludeOne(formation); };
  });
  HZ_RETURN_IF_ERROR(shrink.status());
  if ((*shrink)->excluded != excluded) {
    const Status why =
        InvalidUsage("the ranks disagree whom ncclCommShrink excludes: rank {} says {}, others {}",
                     request.rank, RankList(excluded), RankList((*shrink)->excluded));
    FailPending(key, why);
    return why;
  }
  return TakePlace(key, static_cast<size_t>(request.rank), std::move(applicant));
}

Result<PendingFormation*> Membership::GrowthOf(Communicator& parent, const ApplyMessage& request,
                                               const Applicant& applicant) {
  if (parent.state() != Communicator::State::kReady) return parent.failure();
  if (request.ranks <= parent.ranks() || request.ranks > kMaxRanks) {
    return InvalidArgument("ncclCommGrow to {} ranks: it must be more than the {} there are",
                           request.ranks, parent.ranks());
  }
  const FormationKey key{FormationKey::Kind::kGrow, {}, 0, parent.id(), 0};
  HZ_RETURN_IF_ERROR(CheckNotFailed(key, request.rank));
  const auto growth = PendingAt(key, [&](PendingFormation& made) {
    made.formation = std::make_unique<Formation>(
        key, "ncclCommGrow", request.name.empty() ? parent.name() : request.name, &parent.tenant(),
        static_cast<size_t>(request.ranks), MonotonicNanoseconds());
    made.conclude = [this, id = parent.id()](Formation& formation) {
      issued_.EraseOfParent(id);
      return ConcludeOne(formation);
    };
  });
  HZ_RETURN_IF_ERROR(growth.status());
  HZ_RETURN_IF_ERROR(CheckAgreement(key, request, applicant));
  return *growth;
}

Status Membership::ApplyToGrow(const ApplyMessage& request, Applicant applicant,
                               Communicator& parent) {
  HZ_RETURN_IF_ERROR(GrowthOf(parent, request, applicant).status());
  return TakePlace({FormationKey::Kind::kGrow, {}, 0, parent.id(), 0},
                   static_cast<size_t>(request.rank), std::move(applicant));
}

Status Membership::ApplyToJoinGrowth(const ApplyMessage& request, Applicant applicant) {
  HZ_ASSIGN_OR_RETURN(const UniqueId id, IdOf(request));
  HZ_RETURN_IF_ERROR(CheckIssued(id, request.user, applicant));
  Communicator* parent = communicators_.FindById(issued_.Find(id)->parent);
  if (parent == nullptr) {
    return InvalidUsage(
        "the unique id does not come from ncclCommGetUniqueId, or the communicator that it was "
        "made for is gone");
  }
  HZ_RETURN_IF_ERROR(CheckRanks(request.ranks, request.rank, parent->ranks()));
  HZ_RETURN_IF_ERROR(GrowthOf(*parent, request, applicant).status());
  return TakePlace({FormationKey::Kind::kGrow, {}, 0, parent->id(), 0},
                   static_cast<size_t>(request.rank), std::move(applicant));
}

// ---------------------------------------------------------------------------------------------
// Concluding

Status Membership::ConcludeOne(Formation& formation) {
  // Excused places are gaps that a shrink closes.
  std::vector<Applicant> ranks;
  for (const auto& [place, applicant] : formation.taken()) {
    if (applicant.gets_communicator()) ranks.push_back(applicant);
  }
  return MakeCommunicator(formation, ranks);
}

Status Membership::ConcludeSplit(Formation& formation, const std::vector<SplitCall>& calls) {
  std::map<int, std::vector<size_t>> colors;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    if (calls[rank].has_color) colors[calls[rank].color].push_back(rank);
  }
  for (auto& [color, ranks] : colors) {
    // Equal keys keep the parent's order, as in MPI_Comm_split.
    std::stable_sort(ranks.begin(), ranks.end(),
                     [&](size_t a, size_t b) { return calls[a].key < calls[b].key; });
    std::vector<Applicant> applicants;
    for (const size_t rank : ranks) applicants.push_back(formation.applicant(rank));
    HZ_RETURN_IF_ERROR(MakeCommunicator(formation, applicants));
  }
  return Status::Ok();
}

Status Membership::MakeCommunicator(Formation& formation, const std::vector<Applicant>& ranks) {
  std::map<transport::PeerId, size_t> ranks_of_host;
  for (const Applicant& rank : ranks) ++ranks_of_host[rank.peer];
  for (const auto& [host, count] : ranks_of_host) HZ_RETURN_IF_ERROR(CheckRanksOnHost(count));
  std::vector<Member*> members;
  for (const Applicant& rank : ranks) members.push_back(rank.member);
  const bool all_here = std::all_of(ranks.begin(), ranks.end(),
                                    [](const Applicant& rank) { return rank.peer == kThisDaemon; });
  Tenant& tenant = formation.tenant();
  const LogFor log_for(tenant.identity);
  std::optional<Roster> roster;
  if (!all_here) roster = MakeRoster(ranks);
  // A home of ranks that are all on one other host would have nothing to do.
  const bool kept = all_here || roster->hosts() > 1;
  CommunicatorHoldings holdings;
  if (kept) {
    HZ_ASSIGN_OR_RETURN(holdings, PayForCommunicator(*tenant.account, members.size()));
  }
  if (!all_here) TellFormed(*roster, ranks, formation.name());
  if (kept) {
    AddCommunicator(formation.name(), &tenant, std::move(members), std::move(roster),
                    std::move(holdings));
  }
  return Status::Ok();
}

Communicator* Membership::AddCommunicator(const std::string& name, Tenant* tenant,
                                          std::vector<Member*> members,
                                          std::optional<Roster> roster,
                                          CommunicatorHoldings holdings) {
  auto made = std::make_unique<Communicator>(services_.communicator, communicators_.NextId(), name,
                                             tenant, members);
  if (roster.has_value()) {
    made->Span(std::make_unique<NetworkRunner>(services_.hosts, made.get(), *std::move(roster)));
  }
  Communicator* const communicator = communicators_.Add(std::move(made));
  communicator->Keep(std::move(holdings));
  const int hosts =
      communicator->host_group() == nullptr ? 1 : communicator->host_group()->roster().hosts();
  const int together = communicator->host_group() == nullptr
                           ? static_cast<int>(members.size())
                           : communicator->host_group()->roster().RanksTogether();
  for (size_t rank = 0; rank < members.size(); ++rank) {
    Member* member = members[rank];
    if (member == nullptr) continue;
    member->formation = nullptr;
    member->ticket = 0;
    member->communicator = communicator;
    member->rank = static_cast<int>(rank);
    member->ranks = static_cast<int>(members.size());
    member->slot->rank.store(member->rank, std::memory_order_relaxed);
    member->slot->ranks.store(static_cast<int32_t>(members.size()), std::memory_order_relaxed);
    member->slot->across_hosts.store(hosts > 1 ? 1 : 0, std::memory_order_relaxed);
    member->slot->ranks_together.store(together, std::memory_order_relaxed);
    // What the slot's last owner left behind counted another one's operations.
    member->slot->progress.carried.completed.store(0, std::memory_order_relaxed);
    member->slot->progress.filled.store(0, std::memory_order_relaxed);
    if (communicator->host_group() != nullptr) member->session->NoteOtherHosts();
    member->SetState(MemberState::kReady);
  }
  UniteJobs(communicator);
  services_.communicator.observers->Tell(&CommunicatorObserver::OnFormed, *communicator, hosts);
  return communicator;
}

/// Its ranks are of one job, with all that they have communicators with already.
void Membership::UniteJobs(Communicator* communicator) {
  std::set<uint32_t> jobs;
  for (int rank = 0; rank < communicator->ranks(); ++rank) {
    const Member* const member = communicator->member(rank);
    if (member != nullptr) jobs.insert(member->session->job());
  }
  if (jobs.empty()) return;
  const uint32_t job = *jobs.begin();
  communicator->set_job(job);
  if (jobs.size() == 1) return;
  for (const auto& [id, session] : services_.sessions->all()) {
    if (jobs.contains(session->job())) session->set_job(job);
  }
  for (const auto& [id, other] : communicators_.all()) {
    if (jobs.contains(other->job())) other->set_job(job);
  }
}

}  // namespace harmonaize::daemon
