// How formations fail, and how ranks leave, revoke and are lost.

#include <algorithm>

#include "daemon/formation/membership.h"
#include "daemon/formation/membership_requests.h"
#include "daemon/main/engine.h"
#include "daemon/multihost/span.h"
#include "daemon/runtime/guarded.h"
#include "daemon/runtime/log_tenant.h"
#include "src/base/log.h"

namespace harmonaize::daemon {

void Membership::FailFormation(Formation& formation, const Status& why) {
  // The formation goes next, so each of them has to be rid of it.
  for (const auto& taken : formation.taken()) {
    GuardedAndLogged("a refusal", [&] { Refuse(taken.second, why); });
  }
}

void Membership::Refuse(const Applicant& applicant, const Status& why) {
  if (applicant.member != nullptr) {
    applicant.member->formation = nullptr;
    applicant.member->Fail(why);
  } else if (applicant.peer != 0) {
    engine_->cluster()->Send(applicant.peer, RefusedMessage{{applicant.ticket}, why});
  }
}

void Membership::FailMeeting(const MeetingKey& key, const Status& why) {
  const auto found = meetings_.find(key);
  if (found == meetings_.end()) return;
  FailFormation(*found->second.formation, why);
  // While ranks waited here, their id outlived the process that had asked for it.
  if (const auto id = issued_.find(key.id); id != issued_.end()) {
    const uint32_t asker = id->second.session;
    if (asker != 0 && engine_->FindSession(asker) == nullptr) issued_.erase(id);
  }
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
  // First what may throw: who is called again after an exception finds all as it was.
  if (Formation* const formation = member->formation) {
    const Status status = why(formation->what(), formation->Missing());
    const std::vector<size_t> places = formation->PlacesWhere(
        [&](const Applicant& applicant) { return applicant.member == member; });
    member->formation = nullptr;
    for (const size_t place : places) formation->Forget(place);
    FailMeetingOf(formation, status);
  }
  if (member->ticket != 0) {
    const auto found = tickets_.find(member->ticket);
    if (found == tickets_.end() || found->second.peer == 0) {  // not even asked yet
      if (found != tickets_.end()) tickets_.erase(found);
      member->ticket = 0;
      return;
    }
    // Where it has formed already, OnFormed finds that the rank is gone.
    const Status status = why(WhatOf(found->second.request.kind), "the other ranks");
    const transport::PeerId home = found->second.peer;
    const uint64_t number = std::exchange(member->ticket, 0);
    tickets_.erase(found);
    engine_->cluster()->Send(home, WithdrawMessage{number, status});
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
  departures_.push_back({&session, member, member->communicator, std::move(done)});
  member->gone = true;
  sweep_needed_ = true;
}

Status Membership::Revoke(Session& session, uint32_t index) {
  HZ_ASSIGN_OR_RETURN(Communicator * communicator, Find(session, index));
  (communicator)
      ->Revoke(InvalidUsage("rank {} revoked the communicator: only destroy, split and shrink make "
                            "sense now",
                            session.FindMember(index)->rank));
  return Status::Ok();
}

void Membership::LoseSession(Session& session, const std::string& why) {
  for (Member* member : session.Members()) {
    if (member->gone) continue;
    if (const Formation* const formation = member->formation) {
      const std::vector<size_t> places = formation->PlacesWhere(
          [&](const Applicant& applicant) { return applicant.member == member; });
      QuitForming(member, [&](const std::string& what, const std::string&) {
        return RemoteError("rank {} {} during {}", places.front(), why, what);
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
    const LogFor log_for(communicator->tenant().identity);
    Log(LogLevel::kInfo, kLogInit, "communicator {} '{}' ended after {} operations",
        communicator->id(), communicator->name(), communicator->operations());
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
  std::erase_if(failed_meetings_, [&](const auto& one) { return one.second.ends_ns <= now_ns; });
}

}  // namespace harmonaize::daemon
