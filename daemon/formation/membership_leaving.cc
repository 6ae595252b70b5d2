// How formations fail, and how ranks leave, revoke and are lost.

#include <algorithm>

#include "daemon/cluster/cluster.h"
#include "daemon/formation/membership.h"
#include "daemon/formation/membership_requests.h"
#include "daemon/multihost/host_group.h"
#include "daemon/runtime/guarded.h"
#include "daemon/tenant/session_table.h"

namespace harmonaize::daemon {

void Membership::Withdraw(Member* member, const WhyWithdrawn& why) {
  watch_.Withdraw(member, why);
  if (member->ticket != 0) {
    const auto found = tickets_.find(member->ticket);
    if (found == tickets_.end() || !found->second.peer.has_value()) {  // not even asked yet
      if (found != tickets_.end()) tickets_.erase(found);
      member->ticket = 0;
      return;
    }
    // First what may throw. Where it has formed already, OnFormed finds that the rank is gone.
    const Status status = why(WhatOf(found->second.request.kind), "the other ranks");
    const transport::PeerId home = *found->second.peer;
    const uint64_t number = std::exchange(member->ticket, 0);
    tickets_.erase(found);
    cluster_->Send(home, WithdrawMessage{number, status});
  }
}

Status Membership::Abort(Session& session, uint32_t index) {
  Member* member = session.FindMember(index);
  if (member == nullptr || member->gone) {
    return InvalidArgument("member {} is not a rank of this process", index);
  }
  if (member->formation != nullptr || member->ticket != 0) {
    Status status;
    Withdraw(member, [&](const std::string& what, const std::string& missing) {
      status = RemoteError("a rank aborted while {} was waiting for {}", what, missing);
      return status;
    });
    if (status.ok()) status = RemoteError("the rank aborted before it was formed");
    member->Fail(status);
  }
  if (member->communicator != nullptr) {
    const Status why = RemoteError("rank {} (process {}) aborted the communicator", member->rank,
                                   session.process());
    watch_.FailWaitingFor(*member->communicator, member->rank, why);
    member->communicator->Break(why);
  }
  return Status::Ok();
}

Status Membership::Leave(Session& session, uint32_t index, std::function<void()> done) {
  Member* member = session.FindMember(index);
  if (member == nullptr || member->gone) {
    return InvalidArgument("member {} is not a rank of this process", index);
  }
  Withdraw(member, [](const std::string& what, const std::string& missing) {
    return RemoteError("a rank gave up while {} was waiting for {}", what, missing);
  });
  if (member->communicator != nullptr) {
    Communicator& communicator = *member->communicator;
    const Status why = RemoteError("rank {} (process {}) has left the communicator", member->rank,
                                   session.process());
    watch_.FailWaitingFor(communicator, member->rank, why);
    // An honest client has seen everything complete before it leaves; with a part still posted the
    // rank's buffers are in use, and only an end of everything gives them back.
    if (member->outstanding > 0) communicator.Break(why);
    communicator.Leave(member->rank);
  }
  departures_.Add(session, member, std::move(done));
  return Status::Ok();
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
    if (member->formation != nullptr) {
      Withdraw(member, [&](const std::string& what, const std::string&) {
        return RemoteError("rank {} {} during {}", member->place_in_formation, why, what);
      });
    }
    Withdraw(member, [&](const std::string& what, const std::string&) {
      return RemoteError("a rank {} during {}", why, what);
    });
    if (member->communicator != nullptr) {
      const Status lost = RemoteError("rank {} {}", member->rank, why);
      watch_.FailWaitingFor(*member->communicator, member->rank, lost);
      member->communicator->Break(lost);
      member->communicator->Leave(member->rank);
    }
    departures_.Add(session, member, [] {});
  }
  // Ids that nobody has used yet die with the process that asked for them.
  watch_.EraseIdsOf(session);
}

void Membership::Sweep() {
  departures_.Sweep();
  communicators_.LookAtNoted([this](Communicator& noted) { return MayEndLater(noted); });
}

// Ends a communicator that has no ranks any more. Returns whether to look at it again.
bool Membership::MayEndLater(Communicator& communicator) {
  // The last of those that depart has it looked at again.
  if (communicator.departing > 0 || !communicator.all_left()) return false;
  if (communicator.executing()) return true;
  const uint64_t id = communicator.id();
  services_.communicator.observers->Tell(&CommunicatorObserver::OnEnded, communicator);
  if (const HostGroup* const group = communicator.host_group()) {
    stray_.NoteEnded(group->roster().key, communicator.collectives_begun());
  }
  // Ids for a growth that nobody has begun.
  issued_.EraseOfParent(id);
  communicator.plans().Drop();
  communicators_.Erase(id);
  return false;
}

void Membership::Tick(uint64_t now_ns) {
  const auto late_after = static_cast<uint64_t>(config_.late_after_seconds * 1e9);
  late_rounds_.Report(now_ns, late_after);
  watch_.Tick(now_ns);
  disagreements_.ForgetOld(now_ns);
}

}  // namespace harmonaize::daemon
