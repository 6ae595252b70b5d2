// How formations fail, and how ranks leave, revoke and are lost.

#include <algorithm>

#include "daemon/cluster/cluster.h"
#include "daemon/formation/membership.h"
#include "daemon/formation/membership_requests.h"
#include "daemon/multihost/host_group.h"
#include "daemon/runtime/guarded.h"
#include "daemon/tenant/session_table.h"

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
  } else if (applicant.peer != kThisDaemon) {
    cluster_->Send(applicant.peer, RefusedMessage{{applicant.ticket}, why});
  }
}

void Membership::FailPending(const FormationKey& key, const Status& why) {
  if (!pending_.contains(key)) return;
  FailFormation(*pending_.Find(key)->formation, why);
  // While ranks waited here, their id outlived the process that had asked for it.
  if (const IssuedId* const id = issued_.Find(key.id)) {
    if (id->session != 0 && services_.sessions->Find(id->session) == nullptr) issued_.Erase(key.id);
  }
  pending_.Take(key);
}

void Membership::FailFormationsWaitingFor(const Communicator& parent, int rank, const Status& why) {
  for (const FormationKey& key : pending_.OfParent(parent.id())) {
    if (!pending_.Find(key)->formation->taken(static_cast<size_t>(rank))) FailPending(key, why);
  }
}

void Membership::QuitForming(
    Member* member,
    const std::function<Status(const std::string& what, const std::string& missing)>& why) {
  // First what may throw: who is called again after an exception finds all as it was.
  if (Formation* const formation = member->formation) {
    const Status status = why(formation->what(), formation->Missing());
    const FormationKey key = formation->key();
    member->formation = nullptr;
    formation->Forget(member->place_in_formation);
    FailPending(key, status);
  }
  if (member->ticket != 0) {
    const auto found = tickets_.find(member->ticket);
    if (found == tickets_.end() || !found->second.peer.has_value()) {  // not even asked yet
      if (found != tickets_.end()) tickets_.erase(found);
      member->ticket = 0;
      return;
    }
    // Where it has formed already, OnFormed finds that the rank is gone.
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
    FailFormationsWaitingFor(*member->communicator, member->rank, why);
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
    FailFormationsWaitingFor(communicator, member->rank, why);
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
      QuitForming(member, [&](const std::string& what, const std::string&) {
        return RemoteError("rank {} {} during {}", member->place_in_formation, why, what);
      });
    }
    QuitForming(member, [&](const std::string& what, const std::string&) {
      return RemoteError("a rank {} during {}", why, what);
    });
    if (member->communicator != nullptr) {
      const Status lost = RemoteError("rank {} {}", member->rank, why);
      FailFormationsWaitingFor(*member->communicator, member->rank, lost);
      member->communicator->Break(lost);
      member->communicator->Leave(member->rank);
    }
    departures_.Add(session, member, [] {});
  }
  // Ids that nobody has used yet die with the process that asked for them.
  issued_.EraseOfSession(session.id(), [this](const UniqueId& id) {
    return pending_.contains({FormationKey::Kind::kSecretId, id});
  });
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
  const auto timeout = static_cast<uint64_t>(config_.formation_timeout_seconds * 1e9);
  late_rounds_.Report(now_ns, late_after);
  std::vector<std::pair<FormationKey, Status>> failing;
  for (auto& [key, pending] : pending_.all()) {
    const std::string notice = pending.formation->LateNotice(now_ns, late_after);
    if (!notice.empty()) Notify(*pending.formation, notice);
    if (pending.formation->age_ns(now_ns) > timeout) {
      failing.emplace_back(
          key, RemoteError("{} has waited {:.0f} s in vain for {}", pending.formation->what(),
                           config_.formation_timeout_seconds, pending.formation->Missing()));
    }
  }
  for (const auto& [key, why] : failing) FailPending(key, why);
  disagreements_.ForgetOld(now_ns);
}

}  // namespace harmonaize::daemon
