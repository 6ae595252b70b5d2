#include "daemon/formation/formation_home.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/formation/rank_limits.h"
#include "daemon/formation/ticket_home.h"
#include "daemon/jobs/job_table.h"
#include "daemon/runtime/guarded.h"
#include "daemon/tenant/rank_list.h"
#include "daemon/tenant/session.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Bytes of memory that a tenant is charged for a formation, without its ranks.
constexpr int64_t kFormationBytes = 1024;

/// Describes an applicant in words that other ranks may read: "process 812".
std::string DescribeApplicant(const Applicant& applicant) {
  if (applicant.member != nullptr) {
    return fmt::format("process {}", applicant.member->session->process());
  }
  // Tenants are not told which host, or where it is.
  return applicant.peer == kThisDaemon ? "a process that is gone" : "a process on another host";
}

/// Returns the first rank that a shrink keeps. `excluded` is in order and has each rank once.
uint64_t FirstRemaining(const std::vector<int>& excluded) {
  uint64_t first = 0;
  while (first < excluded.size() && excluded[first] == static_cast<int>(first)) ++first;
  return first;
}

/// Returns whether two shrinks of a communicator keep no rank in common.
bool AreApart(const std::vector<int>& excluded, const std::vector<int>& other, int ranks) {
  std::vector<int> either;
  std::set_union(excluded.begin(), excluded.end(), other.begin(), other.end(),
                 std::back_inserter(either));
  return either.size() == static_cast<size_t>(ranks);
}

/// Returns the applicant's tenant; nullptr for a rank of another host.
const Tenant* TenantOf(const Applicant& applicant) {
  return applicant.member == nullptr ? nullptr : &applicant.member->session->tenant();
}

}  // namespace

Status FormationHome::Apply(const FormationRequest& request, Applicant applicant) {
  switch (request.kind) {
    case FormationKind::kJoin: return ApplyToJoin(request, std::move(applicant));
    case FormationKind::kJoinGrowth: return ApplyToJoinGrowth(request, std::move(applicant));
    default: break;
  }
  Communicator* const parent = services_.communicators.FindById(request.parent);
  // Ranks that shrink without the parent's home apply where their first rank was.
  if (parent == nullptr && request.kind == FormationKind::kShrink) {
    return RemoteError(
        "the first rank that remains has left the communicator: exclude it from the shrink as "
        "well");
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

/// Returns the formation with this key. The first rank has `make` make it. If that throws, or the
/// tenant cannot pay, there is no formation.
template <typename Make>
Result<PendingFormation*> FormationHome::PendingAt(const FormationKey& key, Make make) {
  if (PendingFormation* const found = services_.pending.Find(key)) return found;
  PendingFormation made;
  make(made);
  Account& account = *made.formation->tenant().account;
  // A drawn id has been paid for when it was given out.
  if (key.kind != FormationKey::Kind::kSecretId) {
    HZ_ASSIGN_OR_RETURN(made.place, account.Take(Resource::kUniqueIds, 1));
  }
  const size_t calls = made.split_calls == nullptr ? 0 : made.split_calls->size();
  const auto bytes = kFormationBytes + static_cast<int64_t>(calls * sizeof(SplitCall) +
                                                            made.excluded.size() * sizeof(int32_t));
  HZ_ASSIGN_OR_RETURN(made.memory, account.Take(Resource::kMemory, bytes));
  made.waiting = WaitingHold(services_.waiting);
  PendingFormation& pending = services_.pending.Add(key, std::move(made));
  return &pending;
}

Status FormationHome::TakePlace(const FormationKey& key, size_t place, Applicant applicant) {
  Formation& formation = *services_.pending.Find(key)->formation;
  // A rank that cannot have the place leaves nothing behind.
  if (formation.taken(place)) return formation.Take(place, std::move(applicant));
  // The ticket is noted before the rank has its place, and may be withdrawn.
  if (applicant.peer != kThisDaemon) {
    services_.pending.NoteTicket(applicant.peer, applicant.ticket, key);
  }
  HZ_RETURN_IF_ERROR(formation.Take(place, std::move(applicant)));
  if (formation.complete()) {
    const PendingFormation concluded = services_.pending.Take(key);
    // The formation goes, so an exception must not leave anybody with it.
    const Status status = Caught([&] { return concluded.conclude(*concluded.formation); });
    if (concluded.ended != nullptr) concluded.ended(status);
    if (!status.ok()) {
      services_.watch.RefuseAll(*concluded.formation, status);
    } else {
      GuardedAndLogged("the news of late ranks", [&] { services_.watch.NoteFormed(concluded); });
    }
  }
  return Status::Ok();
}

// The ranks of a formation must agree on their number, and have a number of their own each. If they
// do not, the formation fails for all: ranks that wait, the one that applies, and later ones.
Status FormationHome::CheckAgreement(const FormationKey& key, const FormationRequest& request,
                                     const Applicant& applicant) {
  Formation& formation = *services_.pending.Find(key)->formation;
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
  disagreements_.Remember(key, why, std::move(told), *formation.tenant().account);
  services_.watch.Fail(key, why);
  return why;
}

Status FormationHome::ApplyToJoin(const FormationRequest& request, Applicant applicant) {
  HZ_RETURN_IF_ERROR(CheckRanks(request.ranks, request.rank, 0));
  if (services_.cluster == nullptr) {
    HZ_RETURN_IF_ERROR(CheckRanksOnHost(static_cast<size_t>(request.ranks)));
  }
  FormationKey key{FormationKey::Kind::kSecretId, request.id};
  if (request.id.kind == UniqueId::Kind::kNamed) {
    key.kind = FormationKey::Kind::kNamedId;
    const Member* const member = applicant.member;
    key.tenant = member == nullptr ? request.user : member->session->tenant().identity.number;
  } else {
    HZ_RETURN_IF_ERROR(services_.ids.CheckUse(request.id, request.user, TenantOf(applicant)));
  }
  HZ_RETURN_IF_ERROR(disagreements_.Check(key, request.rank));
  const auto made_join = PendingAt(key, [&](PendingFormation& made) {
    made.formation = std::make_unique<Formation>(
        key, "ncclCommInitRank", request.name,
        applicant.member == nullptr ? services_.tenants.AcrossHosts(request.user)
                                    : &applicant.member->session->tenant(),
        static_cast<size_t>(request.ranks), MonotonicNanoseconds());
    made.conclude = [this, id = request.id](Formation& formation) {
      services_.ids.Erase(id);  // an id serves once
      return completer_.Complete(formation);
    };
  });
  HZ_RETURN_IF_ERROR(made_join.status());
  HZ_RETURN_IF_ERROR(CheckAgreement(key, request, applicant));
  return TakePlace(key, static_cast<size_t>(request.rank), std::move(applicant));
}

Status FormationHome::ApplyToSplit(const FormationRequest& request, Applicant applicant,
                                   Communicator& parent) {
  if (parent.state() == Communicator::State::kBroken) return parent.failure();
  const FormationKey key{FormationKey::Kind::kSplit, {}, 0, parent.id(), request.round};
  const auto places = static_cast<size_t>(parent.ranks());
  const PendingFormation* const begun = services_.pending.Find(key);
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
    made.formation->SetJob(parent.job()->id);
    auto calls = std::make_shared<std::vector<SplitCall>>(places);
    made.split_calls = calls;
    made.conclude = [this, calls](Formation& formation) {
      return completer_.CompleteSplit(formation, *calls);
    };
  });
  HZ_RETURN_IF_ERROR(split.status());
  const auto place = static_cast<size_t>(request.rank);
  (*(*split)->split_calls)[place] = {request.color.has_value(), request.color.value_or(0),
                                     request.key};
  if (!request.gets_communicator()) applicant = {};
  return TakePlace(key, place, std::move(applicant));
}

// Ranks that exclude each other shrink apart: a rank that the others have given up may have given
// up the others. Those that keep a rank in common must keep the same ranks; if they do not, all of
// them fail.
Status FormationHome::CheckShrinksAgree(const FormationRequest& request,
                                        const Communicator& parent) {
  Status why;
  for (const FormationKey& key : services_.pending.OfParent(parent.id())) {
    const std::vector<int>& others = services_.pending.Find(key)->excluded;
    if (key.kind != FormationKey::Kind::kShrink || others == request.excluded) continue;
    if (AreApart(request.excluded, others, parent.ranks())) continue;
    why =
        InvalidUsage("the ranks disagree whom ncclCommShrink excludes: rank {} says {}, others {}",
                     request.rank, RankList(request.excluded), RankList(others));
    services_.watch.Fail(key, why);
  }
  return why;
}

Status FormationHome::ApplyToShrink(const FormationRequest& request, Applicant applicant,
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
  HZ_RETURN_IF_ERROR(CheckShrinksAgree(request, parent));
  const FormationKey key{FormationKey::Kind::kShrink, {}, 0, parent.id(), FirstRemaining(excluded)};
  const auto shrink = PendingAt(key, [&](PendingFormation& made) {
    made.formation = std::make_unique<Formation>(
        key, "ncclCommShrink", request.name.empty() ? parent.name() : request.name,
        &parent.tenant(), static_cast<size_t>(parent.ranks()), MonotonicNanoseconds());
    made.formation->SetJob(parent.job()->id);
    made.excluded = excluded;
    for (const int rank : excluded) made.formation->Excuse(static_cast<size_t>(rank));
    made.conclude = [this](Formation& formation) { return completer_.Complete(formation); };
  });
  HZ_RETURN_IF_ERROR(shrink.status());
  return TakePlace(key, static_cast<size_t>(request.rank), std::move(applicant));
}

Status FormationHome::ApplyToGrow(const FormationRequest& request, Applicant applicant,
                                  Communicator& parent) {
  if (parent.state() != Communicator::State::kReady) return parent.failure();
  if (request.ranks <= parent.ranks() || request.ranks > kMaxRanks) {
    return InvalidArgument("ncclCommGrow to {} ranks: it must be more than the {} there are",
                           request.ranks, parent.ranks());
  }
  const FormationKey key{FormationKey::Kind::kGrow, {}, 0, parent.id(), 0};
  HZ_RETURN_IF_ERROR(disagreements_.Check(key, request.rank));
  HZ_RETURN_IF_ERROR(services_.tickets.CheckGrowth(parent, request.ranks));
  const auto growth = PendingAt(key, [&](PendingFormation& made) {
    made.formation = std::make_unique<Formation>(
        key, "ncclCommGrow", request.name.empty() ? parent.name() : request.name, &parent.tenant(),
        static_cast<size_t>(request.ranks), MonotonicNanoseconds());
    made.formation->SetJob(parent.job()->id);
    made.conclude = [this, id = parent.id()](Formation& formation) {
      services_.ids.EraseOfParent(id);
      return completer_.Complete(formation);
    };
    made.ended = [this, id = parent.id()](const Status& outcome) {
      GuardedAndLogged("the end of a growth",
                       [&] { services_.tickets.OnGrowthEnded(id, outcome); });
    };
  });
  HZ_RETURN_IF_ERROR(growth.status());
  HZ_RETURN_IF_ERROR(CheckAgreement(key, request, applicant));
  return TakePlace(key, static_cast<size_t>(request.rank), std::move(applicant));
}

Status FormationHome::ApplyToJoinGrowth(const FormationRequest& request, Applicant applicant) {
  HZ_RETURN_IF_ERROR(services_.ids.CheckUse(request.id, request.user, TenantOf(applicant)));
  Communicator* parent = services_.communicators.FindById(services_.ids.Find(request.id)->parent);
  if (parent == nullptr) {
    return InvalidUsage(
        "the unique id does not come from ncclCommGetUniqueId, or the communicator that it was "
        "made for is gone");
  }
  HZ_RETURN_IF_ERROR(CheckRanks(request.ranks, request.rank, parent->ranks()));
  return ApplyToGrow(request, std::move(applicant), *parent);
}

// ---------------------------------------------------------------------------------------------
// What the cluster says

void FormationHome::OnApply(transport::PeerId peer, const ApplyMessage& message) {
  const Applicant applicant{.peer = peer,
                            .ticket = message.ticket,
                            .address = message.address,
                            .host = message.host,
                            .claims = DecodeJob(message.job),
                            .on_gpu = message.on_gpu};
  const Result<FormationRequest> request = DecodeRequest(message, services_.communicators);
  const Status status = request.ok() ? Apply(*request, applicant) : request.status();
  if (!status.ok()) services_.watch.Refuse(applicant, status);
}

void FormationHome::GiveUpOn(transport::PeerId peer, const ApplyMessage& message,
                             const Status& exception) {
  services_.watch.Refuse({.peer = peer, .ticket = message.ticket}, exception);
}

void FormationHome::OnAskGrowId(transport::PeerId peer, const AskGrowIdMessage& question) {
  GrowIdMessage answer{.ticket = question.ticket};
  const Communicator* const parent = services_.communicators.FindByKey(question.communicator);
  Result<UniqueId> id = InvalidUsage("the communicator is gone");
  const bool of_user = parent != nullptr && parent->tenant().identity.across_hosts == question.user;
  if (of_user) {
    id = services_.ids.Issue(services_.tenants.AcrossHosts(question.user), 0, parent->id());
  }
  if (id.ok()) {
    answer.id = EncodeId(*id);
  } else {
    answer.status = id.status();
  }
  services_.cluster->Send(peer, answer);
}

}  // namespace harmonaize::daemon
