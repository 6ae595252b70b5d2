#include "daemon/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "daemon/cluster/span.h"
#include "daemon/engine.h"
#include "daemon/rank_list.h"
#include "src/base/clock.h"
#include "src/base/log.h"

namespace harmonaize::daemon {
namespace {

/// Ids that a daemon remembers at most; the oldest unused ones have long lost their job.
constexpr size_t kMaxIssuedIds = 1 << 16;

Status CheckRanks(int ranks, int rank, int first_rank) {
  if (ranks < 1 || ranks > kMaxRanks) {
    return InvalidArgument("a communicator of {} ranks: the number must be 1 to {}", ranks,
                           kMaxRanks);
  }
  if (rank < first_rank || rank >= ranks) {
    return InvalidArgument("rank {} is out of range: it must be {} to {}", rank, first_rank,
                           ranks - 1);
  }
  return Status::Ok();
}

const char* WhatOf(int kind) {
  switch (kind) {
    case ApplyMessage::kSplit: return "ncclCommSplit";
    case ApplyMessage::kShrink: return "ncclCommShrink";
    case ApplyMessage::kGrow:
    case ApplyMessage::kJoinGrowth: return "ncclCommGrow";
    default: return "ncclCommInitRank";
  }
}

std::vector<uint8_t> BytesOf(const UniqueId& id) {
  std::vector<uint8_t> bytes(sizeof id);
  std::memcpy(bytes.data(), &id, sizeof id);
  return bytes;
}

Status HomeIsLost() {
  return RemoteError("the daemon that looked after the communicator does not answer any more");
}

Result<UniqueId> IdOf(const ApplyMessage& request) {
  UniqueId id;
  if (request.id.size() != sizeof id) return InvalidArgument("a unique id of the wrong size");
  std::memcpy(&id, request.id.data(), sizeof id);
  const Status good = CheckUniqueId(id);
  if (!good.ok()) return good;
  return id;
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// Ids

Result<UniqueId> Membership::CreateId(Session& session) {
  return IssueId(session.tenant().user, session.id(), 0);
}

Result<UniqueId> Membership::IssueId(uid_t user, uint32_t session, uint64_t parent) {
  Result<UniqueId> id = MakeSecretId();
  if (!id.ok()) return id;
  if (issued_.size() >= kMaxIssuedIds) {
    return InvalidUsage("{} communicator ids are in use on this host, which is as many as may be",
                        issued_.size());
  }
  if (engine_->cluster() != nullptr) HZ_RETURN_IF_ERROR(engine_->cluster()->Seal(&*id));
  issued_[*id] = {user, session, parent};
  return id;
}

Status Membership::CheckIssued(const UniqueId& id, uid_t user) const {
  const auto issued = issued_.find(id);
  if (issued == issued_.end()) {
    return InvalidArgument(
        "the unique id is not known to the daemon that made it: it was restarted since, the "
        "process "
        "that asked for the id has ended, or the id has served already; or it comes from a host "
        "that is in no cluster with this one. Call ncclGetUniqueId again and hand the new id to "
        "all "
        "ranks");
  }
  if (issued->second.tenant != user) {
    return InvalidUsage("the unique id belongs to another user");
  }
  return Status::Ok();
}

void Membership::CreateGrowId(Session& session, uint32_t index,
                              std::function<void(const Result<UniqueId>&)> done) {
  Result<Communicator*> parent = Find(session, index);
  if (!parent.ok()) return done(parent.status());
  const Span* const span = (*parent)->span();
  if (span == nullptr || span->is_home()) {
    return done(IssueId(session.tenant().user, session.id(), (*parent)->id()));
  }
  if (!engine_->cluster()->Linked(span->roster().home)) return done(HomeIsLost());
  const uint64_t ticket = next_ticket_++;
  grow_id_calls_[ticket] = {span->roster().home, std::move(done)};
  engine_->cluster()->Send(span->roster().home,
                           AskGrowIdMessage{ticket, span->roster().key, session.tenant().user});
}

// ---------------------------------------------------------------------------------------------
// Applying

Result<uint32_t> Membership::Join(Session& session, const UniqueId& id, int ranks, int rank,
                                  const std::string& name) {
  HZ_RETURN_IF_ERROR(CheckUniqueId(id));
  HZ_RETURN_IF_ERROR(CheckRanks(ranks, rank, 0));
  return ApplyFor(
      session,
      {.kind = ApplyMessage::kJoin, .id = BytesOf(id), .ranks = ranks, .rank = rank, .name = name},
      nullptr);
}

Result<uint32_t> Membership::Split(Session& session, uint32_t index, std::optional<int> color,
                                   int key, const std::string& name) {
  Result<Communicator*> parent = Find(session, index);
  if (!parent.ok()) return parent.status();
  if ((*parent)->state() == Communicator::State::kBroken) return (*parent)->failure();
  Member* caller = session.FindMember(index);
  return ApplyFor(session,
                  {.kind = ApplyMessage::kSplit,
                   .round = caller->next_split++,
                   .rank = caller->rank,
                   .takes_part = color.has_value(),
                   .color = color.value_or(0),
                   .key = key,
                   .name = name},
                  *parent);
}

Result<uint32_t> Membership::Shrink(Session& session, uint32_t index, std::vector<int32_t> excluded,
                                    bool abort_parent, const std::string& name) {
  Result<Communicator*> found = Find(session, index);
  if (!found.ok()) return found.status();
  Communicator& parent = **found;
  const int caller = session.FindMember(index)->rank;
  std::sort(excluded.begin(), excluded.end());
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  for (const int32_t rank : excluded) {
    if (rank < 0 || rank >= parent.ranks() || rank == caller) {
      return InvalidArgument("ncclCommShrink cannot exclude rank {} of {} when rank {} calls it",
                             rank, parent.ranks(), caller);
    }
  }
  if (abort_parent) {
    parent.Break(RemoteError("rank {} shrinks the communicator with NCCL_SHRINK_ABORT", caller));
  }
  return ApplyFor(session,
                  {.kind = ApplyMessage::kShrink,
                   .rank = caller,
                   .excluded = std::move(excluded),
                   .name = name},
                  &parent);
}

Result<uint32_t> Membership::GrowFrom(Session& session, uint32_t index, int ranks,
                                      const std::string& name) {
  Result<Communicator*> parent = Find(session, index);
  if (!parent.ok()) return parent.status();
  return ApplyFor(session,
                  {.kind = ApplyMessage::kGrow,
                   .ranks = ranks,
                   .rank = session.FindMember(index)->rank,
                   .name = name},
                  *parent);
}

Result<uint32_t> Membership::JoinGrowth(Session& session, const UniqueId& id, int ranks, int rank,
                                        const std::string& name) {
  HZ_RETURN_IF_ERROR(CheckUniqueId(id));
  return ApplyFor(session,
                  {.kind = ApplyMessage::kJoinGrowth,
                   .id = BytesOf(id),
                   .ranks = ranks,
                   .rank = rank,
                   .name = name},
                  nullptr);
}

Result<Member*> Membership::NewMember(Session& session) {
  Member* member = session.AddMember();
  if (member == nullptr) {
    return InvalidUsage("this process already holds {} communicators, which is as many as it may",
                        kMaxMembers);
  }
  return member;
}

Result<Membership::Desk> Membership::DeskFor(const ApplyMessage& request,
                                             const Communicator* parent) const {
  if (engine_->cluster() == nullptr) return Desk{};
  if (parent != nullptr) return DeskOf(request, *parent);
  const Result<UniqueId> id = IdOf(request);
  if (!id.ok()) return id.status();
  const Result<std::optional<transport::NetworkAddress>> home = engine_->cluster()->HomeOf(*id);
  if (!home.ok()) return home.status();
  if (!home->has_value()) return Desk{};
  return Desk{.here = false, .address = (*home)->ToString()};
}

// The home of the parent. Where that is lost, the ranks that remain can shrink at the daemon of the
// first of them: all that name the same ranks to leave out come to the same.
Result<Membership::Desk> Membership::DeskOf(const ApplyMessage& request,
                                            const Communicator& parent) const {
  if (parent.span() == nullptr || parent.span()->is_home()) return Desk{};
  const Roster& roster = parent.span()->roster();
  if (engine_->cluster()->Linked(roster.home)) return Desk{.here = false, .peer = roster.home};
  if (request.kind != ApplyMessage::kShrink) return HomeIsLost();
  int first = 0;
  while (std::binary_search(request.excluded.begin(), request.excluded.end(), first)) ++first;
  const auto host = static_cast<size_t>(roster.host_of_rank[static_cast<size_t>(first)]);
  if (static_cast<int>(host) == roster.self) return Desk{};
  const transport::PeerId peer = roster.peers[host];
  const bool linked = peer != 0 && engine_->cluster()->Linked(peer);
  return Desk{.here = false, .peer = linked ? peer : 0, .address = roster.addresses[host]};
}

Result<uint32_t> Membership::ApplyFor(Session& session, ApplyMessage request,
                                      Communicator* parent) {
  request.user = session.tenant().user;
  Member* member = nullptr;
  if (request.takes_part) {
    Result<Member*> made = NewMember(session);
    if (!made.ok()) return made.status();
    member = *made;
  }
  const uint32_t index = member == nullptr ? kNoMember : member->index;
  const Status status = ApplyAtDesk(std::move(request), member, parent);
  if (status.ok()) return index;
  if (member != nullptr) session.RemoveMember(member);
  return status;
}

Status Membership::ApplyAtDesk(ApplyMessage request, Member* member, Communicator* parent) {
  const Result<Desk> desk = DeskFor(request, parent);
  if (!desk.ok()) return desk.status();
  if (desk->here) return Apply(request, {.member = member}, parent);
  if (parent != nullptr) request.communicator = parent->span()->roster().key;
  ApplyElsewhere(std::move(request), member, *desk);
  return Status::Ok();
}

void Membership::ApplyElsewhere(ApplyMessage request, Member* member, const Desk& desk) {
  Cluster& cluster = *engine_->cluster();
  request.address = cluster.address();
  request.host = cluster.host_name();
  if (member != nullptr) {
    request.ticket = member->ticket = next_ticket_++;
    tickets_[request.ticket] = {member, desk.peer, request};
  }
  if (desk.peer != 0) return cluster.Send(desk.peer, request);
  cluster.Reach(desk.address, [this,
                               number = request.ticket](const Result<transport::PeerId>& peer) {
    const auto found = tickets_.find(number);
    if (found == tickets_.end()) return;  // has given up meanwhile
    if (!peer.ok()) {
      const bool shrinks = found->second.request.kind == ApplyMessage::kShrink;
      return OnRefused(
          {{number},
           static_cast<int>(Code::kRemoteError),
           fmt::format("{}: the daemon {} cannot be reached; is its host up, and the "
                       "daemon there?",
                       WhatOf(found->second.request.kind),
                       shrinks ? "of the first rank that remains" : "that made the unique id")});
    }
    found->second.peer = *peer;
    engine_->cluster()->Send(*peer, found->second.request);
  });
}

// The daemon at which the rank had applied is lost.
void Membership::ApplyAnew(uint64_t number) {
  const Ticket ticket = tickets_.extract(number).mapped();
  ticket.member->ticket = 0;
  Communicator* const parent = FindByKey(ticket.request.communicator);
  const Status status = parent == nullptr ? RemoteError("the communicator is gone")
                                          : ApplyAtDesk(ticket.request, ticket.member, parent);
  if (!status.ok()) ticket.member->Fail(status);
}

// At the home.
Status Membership::Apply(const ApplyMessage& request, Applicant applicant, Communicator* parent) {
  switch (request.kind) {
    case ApplyMessage::kJoin: return ApplyToJoin(request, std::move(applicant));
    case ApplyMessage::kJoinGrowth: return ApplyToJoinGrowth(request, std::move(applicant));
    default: break;
  }
  if (parent == nullptr) return InvalidUsage("the communicator is gone");
  if (parent->tenant().user != request.user) {
    return InvalidUsage("the communicator belongs to another user");
  }
  if (request.rank < 0 || request.rank >= parent->ranks()) {
    return InvalidArgument("rank {} is not in a communicator of {} ranks", request.rank,
                           parent->ranks());
  }
  switch (request.kind) {
    case ApplyMessage::kSplit: return ApplyToSplit(request, std::move(applicant), *parent);
    case ApplyMessage::kShrink: return ApplyToShrink(request, std::move(applicant), *parent);
    case ApplyMessage::kGrow: return ApplyToGrow(request, std::move(applicant), *parent);
    default: return InvalidUsage("a rank applies for what does not exist");
  }
}

Status Membership::TakePlace(const MeetingKey& key, size_t place, Applicant applicant) {
  Meeting& meeting = meetings_.at(key);
  Formation& formation = *meeting.formation;
  HZ_RETURN_IF_ERROR(formation.Take(place, std::move(applicant)));
  if (formation.complete()) {
    const Meeting concluded = std::move(meeting);
    meetings_.erase(key);
    engine_->DropWaiting(1);
    const Status status = concluded.conclude(*concluded.formation);
    if (!status.ok()) FailFormation(*concluded.formation, status);
  }
  return Status::Ok();
}

Status Membership::ApplyToJoin(const ApplyMessage& request, Applicant applicant) {
  const Result<UniqueId> id = IdOf(request);
  if (!id.ok()) return id.status();
  HZ_RETURN_IF_ERROR(CheckRanks(request.ranks, request.rank, 0));
  MeetingKey key{MeetingKey::Kind::kSecretId, *id};
  if (id->kind == UniqueId::Kind::kNamed) {
    key.kind = MeetingKey::Kind::kNamedId;
    key.tenant = request.user;
  } else {
    HZ_RETURN_IF_ERROR(CheckIssued(*id, request.user));
  }
  Meeting& meeting = meetings_[key];
  if (meeting.formation == nullptr) {
    meeting.formation = std::make_unique<Formation>(
        "ncclCommInitRank", request.name, engine_->TenantOf(request.user),
        static_cast<size_t>(request.ranks), MonotonicNanoseconds());
    meeting.conclude = [this, id = *id](Formation& formation) {
      issued_.erase(id);  // an id serves once
      return ConcludeOne(formation);
    };
    engine_->AddWaiting();
  }
  if (meeting.formation->places() != static_cast<size_t>(request.ranks)) {
    return InvalidUsage("rank {} asks for a communicator of {} ranks, others for one of {}",
                        request.rank, request.ranks, meeting.formation->places());
  }
  return TakePlace(key, static_cast<size_t>(request.rank), std::move(applicant));
}

Status Membership::ApplyToSplit(const ApplyMessage& request, Applicant applicant,
                                Communicator& parent) {
  if (parent.state() == Communicator::State::kBroken) return parent.failure();
  const MeetingKey key{MeetingKey::Kind::kSplit, {}, 0, parent.id(), request.round};
  const auto places = static_cast<size_t>(parent.ranks());
  const auto begun = meetings_.find(key);
  for (size_t rank = 0; rank < places; ++rank) {
    // A rank that gets nothing may have called, and left, already.
    const bool called = begun != meetings_.end() && begun->second.formation->taken(rank);
    if (!called && parent.HasLeft(static_cast<int>(rank))) {
      return RemoteError("rank {} has left the communicator, so it cannot be split", rank);
    }
  }
  Meeting& meeting = meetings_[key];
  if (meeting.formation == nullptr) {
    meeting.formation = std::make_unique<Formation>(
        "ncclCommSplit", request.name.empty() ? parent.name() : request.name, &parent.tenant(),
        places, MonotonicNanoseconds());
    auto calls = std::make_shared<std::vector<SplitCall>>(places);
    meeting.split_calls = calls;
    meeting.conclude = [this, calls](Formation& formation) {
      return ConcludeSplit(formation, *calls);
    };
    engine_->AddWaiting();
  }
  const auto place = static_cast<size_t>(request.rank);
  (*meeting.split_calls)[place] = {request.takes_part, request.color, request.key};
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
  const MeetingKey key{MeetingKey::Kind::kShrink, {}, 0, parent.id(), 0};
  Meeting& meeting = meetings_[key];
  if (meeting.formation == nullptr) {
    meeting.formation = std::make_unique<Formation>(
        "ncclCommShrink", request.name.empty() ? parent.name() : request.name, &parent.tenant(),
        static_cast<size_t>(parent.ranks()), MonotonicNanoseconds());
    meeting.excluded = excluded;
    for (const int rank : excluded) meeting.formation->Excuse(static_cast<size_t>(rank));
    meeting.conclude = [this](Formation& formation) { return ConcludeOne(formation); };
    engine_->AddWaiting();
  }
  if (meeting.excluded != excluded) {
    const Status why =
        InvalidUsage("the ranks disagree whom ncclCommShrink excludes: rank {} says {}, others {}",
                     request.rank, RankList(excluded), RankList(meeting.excluded));
    FailMeeting(key, why);
    return why;
  }
  return TakePlace(key, static_cast<size_t>(request.rank), std::move(applicant));
}

Result<Membership::Meeting*> Membership::GrowthOf(Communicator& parent,
                                                  const ApplyMessage& request) {
  if (parent.state() != Communicator::State::kReady) return parent.failure();
  if (request.ranks <= parent.ranks() || request.ranks > kMaxRanks) {
    return InvalidArgument("ncclCommGrow to {} ranks: it must be more than the {} there are",
                           request.ranks, parent.ranks());
  }
  Meeting& meeting = meetings_[{MeetingKey::Kind::kGrow, {}, 0, parent.id(), 0}];
  if (meeting.formation == nullptr) {
    meeting.formation = std::make_unique<Formation>(
        "ncclCommGrow", request.name.empty() ? parent.name() : request.name, &parent.tenant(),
        static_cast<size_t>(request.ranks), MonotonicNanoseconds());
    meeting.conclude = [this, id = parent.id()](Formation& formation) {
      std::erase_if(issued_, [id](const auto& issued) { return issued.second.parent == id; });
      return ConcludeOne(formation);
    };
    engine_->AddWaiting();
  }
  if (meeting.formation->places() != static_cast<size_t>(request.ranks)) {
    return InvalidUsage("a rank asks ncclCommGrow for {} ranks, others for {}", request.ranks,
                        meeting.formation->places());
  }
  return &meeting;
}

Status Membership::ApplyToGrow(const ApplyMessage& request, Applicant applicant,
                               Communicator& parent) {
  const Result<Meeting*> growth = GrowthOf(parent, request);
  if (!growth.ok()) return growth.status();
  return TakePlace({MeetingKey::Kind::kGrow, {}, 0, parent.id(), 0},
                   static_cast<size_t>(request.rank), std::move(applicant));
}

Status Membership::ApplyToJoinGrowth(const ApplyMessage& request, Applicant applicant) {
  const Result<UniqueId> id = IdOf(request);
  if (!id.ok()) return id.status();
  HZ_RETURN_IF_ERROR(CheckIssued(*id, request.user));
  Communicator* parent = FindById(issued_.at(*id).parent);
  if (parent == nullptr) {
    return InvalidUsage(
        "the unique id does not come from ncclCommGetUniqueId, or the communicator that it was "
        "made for is gone");
  }
  HZ_RETURN_IF_ERROR(CheckRanks(request.ranks, request.rank, parent->ranks()));
  const Result<Meeting*> growth = GrowthOf(*parent, request);
  if (!growth.ok()) return growth.status();
  return TakePlace({MeetingKey::Kind::kGrow, {}, 0, parent->id(), 0},
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
  std::vector<Member*> members;
  for (const Applicant& rank : ranks) members.push_back(rank.member);
  const bool all_here =
      std::all_of(ranks.begin(), ranks.end(), [](const Applicant& rank) { return rank.peer == 0; });
  Tenant& tenant = formation.tenant();
  std::optional<Roster> roster;
  if (!all_here) roster = MakeRoster(ranks);
  // A home of ranks that are all on one other host would have nothing to do.
  const bool kept = all_here || roster->hosts() > 1;
  if (kept) {
    HZ_RETURN_IF_ERROR(
        Charge(tenant, "communicators", &tenant.communicators, 1, config_.quota.communicators));
  }
  if (!all_here) TellFormed(*roster, ranks, formation.name());
  if (kept) AddCommunicator(formation.name(), &tenant, std::move(members), std::move(roster));
  return Status::Ok();
}

Communicator* Membership::AddCommunicator(const std::string& name, Tenant* tenant,
                                          std::vector<Member*> members,
                                          std::optional<Roster> roster) {
  communicators_.push_back(std::make_unique<Communicator>(engine_, next_communicator_++, name,
                                                          tenant, members, std::move(roster)));
  Communicator* communicator = communicators_.back().get();
  for (size_t rank = 0; rank < members.size(); ++rank) {
    Member* member = members[rank];
    if (member == nullptr) continue;
    member->formation = nullptr;
    member->ticket = 0;
    member->communicator = communicator;
    member->rank = static_cast<int>(rank);
    member->slot->rank.store(member->rank, std::memory_order_relaxed);
    member->slot->ranks.store(static_cast<int32_t>(members.size()), std::memory_order_relaxed);
    member->SetState(MemberState::kReady);
  }
  const int hosts = communicator->span() == nullptr ? 1 : communicator->span()->roster().hosts();
  Log(LogLevel::kInfo, kLogInit, "communicator {} '{}' of user {}: {} ranks on {} host{}",
      communicator->id(), name, tenant->name, members.size(), hosts, hosts == 1 ? "" : "s");
  return communicator;
}

// ---------------------------------------------------------------------------------------------
// Leaving

Result<Communicator*> Membership::Find(Session& session, uint32_t index) {
  Member* member = session.FindMember(index);
  if (member == nullptr || member->gone) {
    return InvalidArgument("member {} is not a rank of this process", index);
  }
  if (member->communicator == nullptr) return InvalidUsage("the communicator is not ready");
  return member->communicator;
}

Communicator* Membership::FindById(uint64_t id) {
  for (const auto& communicator : communicators_) {
    if (communicator->id() == id) return communicator.get();
  }
  return nullptr;
}

void Membership::FailFormation(Formation& formation, const Status& why) {
  for (const auto& [place, applicant] : formation.taken()) Refuse(applicant, why);
}

void Membership::Refuse(const Applicant& applicant, const Status& why) {
  if (applicant.member != nullptr) {
    applicant.member->formation = nullptr;
    applicant.member->Fail(why);
  } else if (applicant.peer != 0) {
    engine_->cluster()->Send(
        applicant.peer,
        RefusedMessage{{applicant.ticket}, static_cast<int>(why.code()), why.message()});
  }
}

void Membership::FailMeeting(const MeetingKey& key, const Status& why) {
  const auto found = meetings_.find(key);
  if (found == meetings_.end()) return;
  FailFormation(*found->second.formation, why);
  meetings_.erase(found);
  engine_->DropWaiting(1);
}

void Membership::FailMeetingOf(const Formation* formation, const Status& why) {
  for (const auto& [key, meeting] : meetings_) {
    if (meeting.formation.get() != formation) continue;
    FailMeeting(key, why);
    return;
  }
}

void Membership::FailMeetingsWaitingFor(const Communicator& parent, int rank, const Status& why) {
  std::vector<MeetingKey> failing;
  for (const auto& [key, meeting] : meetings_) {
    if (key.parent == parent.id() && !meeting.formation->taken(static_cast<size_t>(rank))) {
      failing.push_back(key);
    }
  }
  for (const MeetingKey& key : failing) FailMeeting(key, why);
}

void Membership::QuitForming(
    Member* member,
    const std::function<Status(const std::string& what, const std::string& missing)>& why) {
  if (Formation* const formation = std::exchange(member->formation, nullptr)) {
    const Status status = why(formation->what(), formation->Missing());
    for (const size_t place : formation->PlacesWhere(
             [&](const Applicant& applicant) { return applicant.member == member; })) {
      formation->Forget(place);
    }
    FailMeetingOf(formation, status);
  }
  if (const uint64_t number = std::exchange(member->ticket, 0); number != 0) {
    const Ticket ticket = tickets_.extract(number).mapped();
    if (ticket.peer == 0) return;  // not even asked yet
    // Where it has formed already, OnFormed finds that the rank is gone.
    const Status status = why(WhatOf(ticket.request.kind), "the other ranks");
    engine_->cluster()->Send(
        ticket.peer, WithdrawMessage{number, static_cast<int>(status.code()), status.message()});
  }
}

Status Membership::Abort(Session& session, uint32_t index) {
  Member* member = session.FindMember(index);
  if (member == nullptr || member->gone) {
    return InvalidArgument("member {} is not a rank of this process", index);
  }
  if (member->formation != nullptr || member->ticket != 0) {
    Status status;
    QuitForming(member, [&](const std::string& what, const std::string& missing) {
      status = RemoteError("a rank aborted while {} was waiting for {}", what, missing);
      return status;
    });
    if (status.ok()) status = RemoteError("the rank aborted before it was formed");
    member->Fail(status);
  }
  if (member->communicator != nullptr) {
    const Status why = RemoteError("rank {} (process {}) aborted the communicator", member->rank,
                                   session.process());
    FailMeetingsWaitingFor(*member->communicator, member->rank, why);
    member->communicator->Break(why);
  }
  return Status::Ok();
}

Status Membership::Leave(Session& session, uint32_t index, std::function<void()> done) {
  Member* member = session.FindMember(index);
  if (member == nullptr || member->gone) {
    return InvalidArgument("member {} is not a rank of this process", index);
  }
  QuitForming(member, [](const std::string& what, const std::string& missing) {
    return RemoteError("a rank gave up while {} was waiting for {}", what, missing);
  });
  if (member->communicator != nullptr) {
    Communicator& communicator = *member->communicator;
    const Status why = RemoteError("rank {} (process {}) has left the communicator", member->rank,
                                   session.process());
    FailMeetingsWaitingFor(communicator, member->rank, why);
    // An honest client has seen everything complete before it leaves; with a part still posted the
    // rank's buffers are in use, and only an end of everything gives them back.
    if (member->outstanding > 0) communicator.Break(why);
    communicator.Leave(member->rank);
  }
  Depart(session, member, std::move(done));
  return Status::Ok();
}

void Membership::Depart(Session& session, Member* member, std::function<void()> done) {
  member->gone = true;
  departures_.push_back({&session, member, member->communicator, std::move(done)});
  sweep_needed_ = true;
}

Status Membership::Revoke(Session& session, uint32_t index) {
  Result<Communicator*> communicator = Find(session, index);
  if (!communicator.ok()) return communicator.status();
  (*communicator)
      ->Revoke(InvalidUsage("rank {} revoked the communicator: only destroy, split and shrink make "
                            "sense now",
                            session.FindMember(index)->rank));
  return Status::Ok();
}

void Membership::LoseSession(Session& session, const std::string& why) {
  for (Member* member : session.Members()) {
    if (member->gone) continue;
    if (const Formation* const formation = member->formation) {
      const size_t place =
          formation
              ->PlacesWhere([&](const Applicant& applicant) { return applicant.member == member; })
              .front();
      QuitForming(member, [&](const std::string& what, const std::string&) {
        return RemoteError("rank {} {} during {}", place, why, what);
      });
    }
    QuitForming(member, [&](const std::string& what, const std::string&) {
      return RemoteError("a rank {} during {}", why, what);
    });
    if (member->communicator != nullptr) {
      const Status lost = RemoteError("rank {} {}", member->rank, why);
      FailMeetingsWaitingFor(*member->communicator, member->rank, lost);
      member->communicator->Break(lost);
      member->communicator->Leave(member->rank);
    }
    Depart(session, member, [] {});
  }
  // Ids that nobody has used yet die with the process that asked for them.
  std::erase_if(issued_, [&](const auto& issued) {
    return issued.second.session == session.id() &&
           !meetings_.contains({MeetingKey::Kind::kSecretId, issued.first});
  });
}

void Membership::Sweep() {
  if (!sweep_needed_) return;
  sweep_needed_ = false;
  for (auto departure = departures_.begin(); departure != departures_.end();) {
    const bool executing =
        departure->communicator != nullptr && departure->communicator->executing();
    if (!executing && departure->done != nullptr) std::exchange(departure->done, nullptr)();
    if (executing || departure->member->outstanding > 0) {
      sweep_needed_ = true;
      ++departure;
      continue;
    }
    departure->session->RemoveMember(departure->member);
    departure = departures_.erase(departure);
  }
  std::erase_if(communicators_, [this](const std::unique_ptr<Communicator>& communicator) {
    if (!communicator->abandoned()) return false;
    const bool awaited = std::any_of(
        departures_.begin(), departures_.end(),
        [&](const Departure& departure) { return departure.communicator == communicator.get(); });
    if (awaited) return false;
    Log(LogLevel::kInfo, kLogInit, "communicator {} '{}' ended after {} operations",
        communicator->id(), communicator->name(), communicator->operations());
    --communicator->tenant().communicators;
    if (const Span* const span = communicator->span()) {
      NoteEnded(span->roster().key, communicator->collectives_begun());
    }
    // Ids for a growth that nobody has begun.
    std::erase_if(issued_, [id = communicator->id()](const auto& issued) {
      return issued.second.parent == id;
    });
    return true;
  });
}

void Membership::Tick(uint64_t now_ns) {
  const auto late_after = static_cast<uint64_t>(config_.late_after_seconds * 1e9);
  const auto timeout = static_cast<uint64_t>(config_.formation_timeout_seconds * 1e9);
  for (const auto& communicator : communicators_) communicator->ReportLate(now_ns, late_after);
  std::vector<std::pair<MeetingKey, Status>> failing;
  for (auto& [key, meeting] : meetings_) {
    const std::string notice = meeting.formation->LateNotice(now_ns, late_after);
    if (!notice.empty()) Notify(*meeting.formation, notice);
    if (meeting.formation->age_ns(now_ns) > timeout) {
      failing.emplace_back(
          key, RemoteError("{} has waited {:.0f} s in vain for {}", meeting.formation->what(),
                           config_.formation_timeout_seconds, meeting.formation->Missing()));
    }
  }
  for (const auto& [key, why] : failing) FailMeeting(key, why);
}

}  // namespace harmonaize::daemon
