#include "daemon/membership.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "daemon/engine.h"
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

}  // namespace

// ---------------------------------------------------------------------------------------------
// Ids

Result<UniqueId> Membership::CreateId(Session& session) {
  Result<UniqueId> id = MakeSecretId();
  if (!id.ok()) return id;
  if (issued_.size() >= kMaxIssuedIds) {
    return InvalidUsage("{} communicator ids are in use on this host, which is as many as may be",
                        issued_.size());
  }
  issued_[*id] = {session.tenant().user, session.id(), 0};
  return id;
}

Status Membership::CheckIssued(const UniqueId& id, uid_t user) const {
  const auto issued = issued_.find(id);
  if (issued == issued_.end()) {
    return InvalidArgument(
        "the unique id was not made by this host's daemon, or the daemon was restarted since: call "
        "ncclGetUniqueId again and hand the new id to all ranks");
  }
  if (issued->second.tenant != user) {
    return InvalidUsage("the unique id belongs to another user");
  }
  return Status::Ok();
}

// ---------------------------------------------------------------------------------------------
// Forming

Result<Member*> Membership::NewMember(Session& session) {
  Member* member = session.AddMember();
  if (member == nullptr) {
    return InvalidUsage("this process already holds {} communicators, which is as many as it may",
                        kMaxMembers);
  }
  return member;
}

Result<uint32_t> Membership::TakePlace(const MeetingKey& key, Session& session, size_t place,
                                       bool gets_communicator) {
  Meeting& meeting = meetings_.at(key);
  Formation& formation = *meeting.formation;
  if (formation.taken(place)) return formation.Take(place, nullptr);
  Member* member = nullptr;
  if (gets_communicator) {
    Result<Member*> made = NewMember(session);
    if (!made.ok()) return made.status();
    member = *made;
  }
  HZ_RETURN_IF_ERROR(formation.Take(place, member));
  const uint32_t index = member == nullptr ? kNoMember : member->index;
  if (formation.complete()) {
    const Meeting concluded = std::move(meeting);
    meetings_.erase(key);
    engine_->DropWaiting(1);
    const Status status = concluded.conclude(*concluded.formation);
    if (!status.ok()) concluded.formation->Fail(status);
  }
  return index;
}

Result<uint32_t> Membership::Join(Session& session, const UniqueId& id, int ranks, int rank,
                                  const std::string& name) {
  HZ_RETURN_IF_ERROR(CheckUniqueId(id));
  HZ_RETURN_IF_ERROR(CheckRanks(ranks, rank, 0));
  const uid_t user = session.tenant().user;
  MeetingKey key{MeetingKey::Kind::kSecretId, id};
  if (id.kind == UniqueId::Kind::kNamed) {
    key.kind = MeetingKey::Kind::kNamedId;
    key.tenant = user;
  } else {
    HZ_RETURN_IF_ERROR(CheckIssued(id, user));
  }
  Meeting& meeting = meetings_[key];
  if (meeting.formation == nullptr) {
    meeting.formation =
        std::make_unique<Formation>("ncclCommInitRank", name, &session.tenant(),
                                    static_cast<size_t>(ranks), MonotonicNanoseconds());
    meeting.conclude = [this, id](Formation& formation) {
      issued_.erase(id);  // an id serves once
      return ConcludeOne(formation);
    };
    engine_->AddWaiting();
  }
  if (meeting.formation->places() != static_cast<size_t>(ranks)) {
    return InvalidUsage("rank {} asks for a communicator of {} ranks, others for one of {}", rank,
                        ranks, meeting.formation->places());
  }
  return TakePlace(key, session, static_cast<size_t>(rank), true);
}

Status Membership::ConcludeOne(Formation& formation) {
  std::vector<Member*> members;
  for (size_t i = 0; i < formation.places(); ++i) {
    // Excused places are gaps that a shrink closes.
    if (formation.member(i) != nullptr) members.push_back(formation.member(i));
  }
  return MakeCommunicator(formation.name(), &formation.tenant(), std::move(members));
}

Status Membership::MakeCommunicator(const std::string& name, Tenant* tenant,
                                    std::vector<Member*> members) {
  HZ_RETURN_IF_ERROR(
      Charge(*tenant, "communicators", &tenant->communicators, 1, config_.quota.communicators));
  communicators_.push_back(
      std::make_unique<Communicator>(engine_, next_communicator_++, name, tenant, members));
  Communicator* communicator = communicators_.back().get();
  for (size_t rank = 0; rank < members.size(); ++rank) {
    Member* member = members[rank];
    member->formation = nullptr;
    member->communicator = communicator;
    member->rank = static_cast<int>(rank);
    member->slot->rank.store(member->rank, std::memory_order_relaxed);
    member->slot->ranks.store(static_cast<int32_t>(members.size()), std::memory_order_relaxed);
    member->SetState(MemberState::kReady);
  }
  Log(LogLevel::kInfo, kLogInit, "communicator {} '{}' of user {}: {} ranks", communicator->id(),
      name, tenant->name, members.size());
  return Status::Ok();
}

// ---------------------------------------------------------------------------------------------
// Split

Result<uint32_t> Membership::Split(Session& session, uint32_t index, std::optional<int> color,
                                   int key, const std::string& name) {
  Result<Communicator*> parent = Find(session, index);
  if (!parent.ok()) return parent.status();
  if ((*parent)->state() == Communicator::State::kBroken) return (*parent)->failure();
  Member* caller = session.FindMember(index);
  const MeetingKey meeting_key{
      MeetingKey::Kind::kSplit, {}, 0, (*parent)->id(), caller->next_split++};
  const auto places = static_cast<size_t>((*parent)->ranks());
  const auto begun = meetings_.find(meeting_key);
  for (size_t rank = 0; rank < places; ++rank) {
    // A rank that gets nothing may have called, and left, already.
    const bool called = begun != meetings_.end() && begun->second.formation->taken(rank);
    if (!called && (*parent)->member(static_cast<int>(rank)) == nullptr) {
      return RemoteError("rank {} has left the communicator, so it cannot be split", rank);
    }
  }
  Meeting& meeting = meetings_[meeting_key];
  if (meeting.formation == nullptr) {
    meeting.formation =
        std::make_unique<Formation>("ncclCommSplit", name.empty() ? (*parent)->name() : name,
                                    &session.tenant(), places, MonotonicNanoseconds());
    auto calls = std::make_shared<std::vector<SplitCall>>(places);
    meeting.split_calls = calls;
    meeting.conclude = [this, calls](Formation& formation) {
      return ConcludeSplit(formation, *calls);
    };
    engine_->AddWaiting();
  }
  const auto place = static_cast<size_t>(caller->rank);
  (*meeting.split_calls)[place] = {color.has_value(), color.value_or(0), key};
  return TakePlace(meeting_key, session, place, color.has_value());
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
    std::vector<Member*> members;
    for (const size_t rank : ranks) members.push_back(formation.member(rank));
    HZ_RETURN_IF_ERROR(MakeCommunicator(formation.name(), &formation.tenant(), std::move(members)));
  }
  return Status::Ok();
}

// ---------------------------------------------------------------------------------------------
// Shrink

Result<uint32_t> Membership::Shrink(Session& session, uint32_t index, std::vector<int32_t> excluded,
                                    bool abort_parent, const std::string& name) {
  Result<Communicator*> found = Find(session, index);
  if (!found.ok()) return found.status();
  Communicator& parent = **found;
  Member* caller = session.FindMember(index);
  std::sort(excluded.begin(), excluded.end());
  excluded.erase(std::unique(excluded.begin(), excluded.end()), excluded.end());
  for (const int32_t rank : excluded) {
    if (rank < 0 || rank >= parent.ranks() || rank == caller->rank) {
      return InvalidArgument("ncclCommShrink cannot exclude rank {} of {} when rank {} calls it",
                             rank, parent.ranks(), caller->rank);
    }
  }
  for (int rank = 0; rank < parent.ranks(); ++rank) {
    if (parent.member(rank) == nullptr &&
        !std::binary_search(excluded.begin(), excluded.end(), rank)) {
      return RemoteError("rank {} has left the communicator: exclude it from the shrink as well",
                         rank);
    }
  }
  if (abort_parent) {
    parent.Break(
        RemoteError("rank {} shrinks the communicator with NCCL_SHRINK_ABORT", caller->rank));
  }

  const MeetingKey key{MeetingKey::Kind::kShrink, {}, 0, parent.id(), 0};
  Meeting& meeting = meetings_[key];
  if (meeting.formation == nullptr) {
    meeting.formation = std::make_unique<Formation>(
        "ncclCommShrink", name.empty() ? parent.name() : name, &session.tenant(),
        static_cast<size_t>(parent.ranks()), MonotonicNanoseconds());
    meeting.excluded = excluded;
    for (const int32_t rank : excluded) meeting.formation->Excuse(static_cast<size_t>(rank));
    meeting.conclude = [this](Formation& formation) { return ConcludeOne(formation); };
    engine_->AddWaiting();
  }
  if (meeting.excluded != excluded) {
    const Status why =
        InvalidUsage("the ranks disagree whom ncclCommShrink excludes: rank {} says {}, others {}",
                     caller->rank, fmt::join(excluded, " "), fmt::join(meeting.excluded, " "));
    FailMeeting(key, why);
    return why;
  }
  return TakePlace(key, session, static_cast<size_t>(caller->rank), true);
}

// ---------------------------------------------------------------------------------------------
// Growth

Result<UniqueId> Membership::CreateGrowId(Session& session, uint32_t index) {
  Result<Communicator*> parent = Find(session, index);
  if (!parent.ok()) return parent.status();
  Result<UniqueId> id = CreateId(session);
  if (id.ok()) issued_[*id].parent = (*parent)->id();
  return id;
}

Result<Membership::Meeting*> Membership::GrowthOf(Communicator& parent, int ranks,
                                                  const std::string& name) {
  if (parent.state() != Communicator::State::kReady) return parent.failure();
  if (ranks <= parent.ranks() || ranks > kMaxRanks) {
    return InvalidArgument("ncclCommGrow to {} ranks: it must be more than the {} there are", ranks,
                           parent.ranks());
  }
  Meeting& meeting = meetings_[{MeetingKey::Kind::kGrow, {}, 0, parent.id(), 0}];
  if (meeting.formation == nullptr) {
    meeting.formation = std::make_unique<Formation>(
        "ncclCommGrow", name.empty() ? parent.name() : name, &parent.tenant(),
        static_cast<size_t>(ranks), MonotonicNanoseconds());
    meeting.conclude = [this, id = parent.id()](Formation& formation) {
      std::erase_if(issued_, [id](const auto& issued) { return issued.second.parent == id; });
      return ConcludeOne(formation);
    };
    engine_->AddWaiting();
  }
  if (meeting.formation->places() != static_cast<size_t>(ranks)) {
    return InvalidUsage("a rank asks ncclCommGrow for {} ranks, others for {}", ranks,
                        meeting.formation->places());
  }
  return &meeting;
}

Result<uint32_t> Membership::GrowFrom(Session& session, uint32_t index, int ranks,
                                      const std::string& name) {
  Result<Communicator*> parent = Find(session, index);
  if (!parent.ok()) return parent.status();
  const Result<Meeting*> growth = GrowthOf(**parent, ranks, name);
  if (!growth.ok()) return growth.status();
  return TakePlace({MeetingKey::Kind::kGrow, {}, 0, (*parent)->id(), 0}, session,
                   static_cast<size_t>(session.FindMember(index)->rank), true);
}

Result<uint32_t> Membership::JoinGrowth(Session& session, const UniqueId& id, int ranks, int rank,
                                        const std::string& name) {
  HZ_RETURN_IF_ERROR(CheckUniqueId(id));
  HZ_RETURN_IF_ERROR(CheckIssued(id, session.tenant().user));
  Communicator* parent = FindById(issued_.at(id).parent);
  if (parent == nullptr) {
    return InvalidUsage(
        "the unique id does not come from ncclCommGetUniqueId, or the communicator that it was "
        "made for is gone");
  }
  HZ_RETURN_IF_ERROR(CheckRanks(ranks, rank, parent->ranks()));
  const Result<Meeting*> growth = GrowthOf(*parent, ranks, name);
  if (!growth.ok()) return growth.status();
  return TakePlace({MeetingKey::Kind::kGrow, {}, 0, parent->id(), 0}, session,
                   static_cast<size_t>(rank), true);
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

void Membership::FailMeeting(const MeetingKey& key, const Status& why) {
  const auto found = meetings_.find(key);
  if (found == meetings_.end()) return;
  found->second.formation->Fail(why);
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

void Membership::QuitFormation(Member* member, const Status& why) {
  Formation* const formation = member->formation;
  formation->Forget(member);
  FailMeetingOf(formation, why);
  member->formation = nullptr;
}

Status Membership::Abort(Session& session, uint32_t index) {
  Member* member = session.FindMember(index);
  if (member == nullptr || member->gone) {
    return InvalidArgument("member {} is not a rank of this process", index);
  }
  if (member->formation != nullptr) {
    Formation* formation = member->formation;
    const Status why = RemoteError("a rank aborted while {} was waiting for {}", formation->what(),
                                   formation->Missing());
    QuitFormation(member, why);
    member->Fail(why);
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
  if (member->formation != nullptr) {
    const Formation* formation = member->formation;
    QuitFormation(member, RemoteError("a rank gave up while {} was waiting for {}",
                                      formation->what(), formation->Missing()));
  }
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
    if (member->formation != nullptr) {
      Formation* formation = member->formation;
      size_t place = 0;
      while (formation->member(place) != member) ++place;
      QuitFormation(member, RemoteError("rank {} {} during {}", place, why, formation->what()));
    }
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
    return true;
  });
}

void Membership::Tick(uint64_t now_ns) {
  const auto late_after = static_cast<uint64_t>(config_.late_after_seconds * 1e9);
  const auto timeout = static_cast<uint64_t>(config_.formation_timeout_seconds * 1e9);
  for (const auto& communicator : communicators_) communicator->ReportLate(now_ns, late_after);
  std::vector<std::pair<MeetingKey, Status>> failing;
  for (auto& [key, meeting] : meetings_) {
    meeting.formation->ReportLate(now_ns, late_after);
    if (meeting.formation->age_ns(now_ns) > timeout) {
      failing.emplace_back(
          key, RemoteError("{} has waited {:.0f} s in vain for {}", meeting.formation->what(),
                           config_.formation_timeout_seconds, meeting.formation->Missing()));
    }
  }
  for (const auto& [key, why] : failing) FailMeeting(key, why);
}

}  // namespace harmonaize::daemon
