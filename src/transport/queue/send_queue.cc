#include "src/transport/queue/send_queue.h"

#include <algorithm>

#include "src/base/clock.h"

namespace harmonaize::transport {

// ---- What waits ----

void SendQueue::Push(Request* send) {
  Job* const job = JobOf(send->share);
  job->small.PushBack(send);
  Place(job);
}

void SendQueue::PushBulk(Request* send) {
  Job* const job = JobOf(send->share);
  job->bulk.Push(send);
  Place(job);
}

void SendQueue::ReturnBulk(Request* send) {
  Job* const job = JobOf(send->share);
  job->bulk.Return(send);
  Place(job);
}

/// Returns the job in which a send is now to wait. The caller adds the send and calls Place.
SendQueue::Job* SendQueue::JobOf(const TenantShare& share) {
  Group* const group = groups_.Of(GroupOf(share));
  group->weight = share.weight;
  group->jobs.set_lead(lead_);
  Owner* const owner = OwnerOf(share, group);
  Job* const job = group->jobs.Of(share.job);
  Owner* const before = job->owner;
  job->owner = owner;
  if (before != nullptr && before != owner) {
    before->jobs.Remove(job);
    Place(before);
  }
  SetTerms(share, owner);
  groups_.Want(group);
  group->jobs.Want(job);
  return job;
}

SendQueue::Owner* SendQueue::OwnerOf(const TenantShare& share, Group* group) {
  Owner* owner = group->owners.Find(share.owner);
  if (owner == nullptr) {
    owner = group->owners.Add(share.owner, [](const Owner& /*old*/) { return true; });
  }
  owner->Unlink();
  owner->group = group;
  return owner;
}

/// Notes the terms with which a message comes. They may let an owner go on that was put aside.
void SendQueue::SetTerms(const TenantShare& share, Owner* owner) {
  Group* const group = owner->group;
  SetPaces(owner);
  if (rates_ == nullptr || share.owner == 0) return;
  const bool has_terms = share.floor > 0 || share.cap > 0 || share.tenant_cap > 0;
  if (!has_terms && rates_->empty()) return;
  const uint64_t now_ns = MonotonicNanoseconds();
  rates_->Note(share, now_ns);
  owner->rate = rates_->Of(share.tenant, share.owner);
  group->rate = rates_->OfTenant(share.tenant);
  if (owner->held && WaitNs(*owner, now_ns) <= 0) Release(owner);
  if (group->held && WaitNs(*group, now_ns) <= 0) Release(group);
}

/// Notes the paces of an owner and its tenant. Nothing limits the daemon's own messages.
void SendQueue::SetPaces(Owner* owner) const {
  Group* const group = owner->group;
  const auto tenant = static_cast<uint32_t>(group->id);
  const bool is_limited = paces_ != nullptr && owner->id != 0;
  owner->pace = is_limited ? paces_->Of(tenant, owner->id) : nullptr;
  group->pace = is_limited ? paces_->OfTenant(tenant) : nullptr;
}

/// Finds the place of a job among others, after what it sends next or what it has had has changed.
void SendQueue::Place(Job* job) {
  Owner* const owner = job->owner;
  const Request* const next = job->Front();
  if (next == nullptr) {
    owner->jobs.Remove(job);
    owner->group->jobs.Rest(job);
  } else {
    owner->jobs.Put(job, owner->group->jobs.Claim(*job, static_cast<double>(next->left)));
  }
  Place(owner);
}

/// Finds the place of an owner among those of its group. It claims a turn for the job that would be
/// the first if there were no other owners. That one may lead by what the owner's last job has had.
void SendQueue::Place(Owner* owner) {
  Group* const group = owner->group;
  TurnPlace* const first = owner->jobs.Next();
  if (first != nullptr && !owner->held) {
    TurnClaim claim = first->claim();
    claim.start = owner->jobs.least_start();
    group->ready.Put(owner, claim);
    if (owner->rate != nullptr && owner->rate->has_floor() && !owner->by_floor.linked()) {
      floors_.PushBack(&owner->by_floor);
    }
  } else {
    group->ready.Remove(owner);
    owner->by_floor.Unlink();
  }
  if (first == nullptr && !owner->held) {
    owner->rate.reset();
    group->owners.Rest(owner);
  }
  Place(group);
}

void SendQueue::Place(Group* group) {
  TurnPlace* const first = group->ready.Next();
  if (first != nullptr && !group->held) {
    ready_.Put(group, groups_.Claim(*group, first->claim().left));
  } else {
    ready_.Remove(group);
  }
  if (first == nullptr && !group->held && group->held_owners == 0) {
    group->rate.reset();
    groups_.Rest(group);
  }
}

// ---- Turns ----

SendQueue::Turn SendQueue::Next() {
  const bool limited =
      (rates_ != nullptr && !rates_->empty()) || (paces_ != nullptr && !paces_->empty());
  const uint64_t now_ns = limited ? MonotonicNanoseconds() : 0;
  ReleaseDue(now_ns);
  for (;;) {
    Owner* owner = NextByFloor(now_ns);
    const bool by_floor = owner != nullptr;
    if (!by_floor) owner = NextByTurn();
    if (owner == nullptr) break;
    Job* const job = Admit(owner, now_ns);
    if (job == nullptr) continue;
    by_floor_ = by_floor;
    floor_turns_ = by_floor ? floor_turns_ + 1 : 0;
    if (Request* send = job->small.PopFront(); send != nullptr) return {send, false};
    return {job->bulk.Pop(), true};
  }
  floor_turns_ = 0;
  CallWhenDue(now_ns);
  return {};
}

/// Returns the owner that is furthest behind its floor, of those at which this turn looks; null if
/// none is.
SendQueue::Owner* SendQueue::NextByFloor(uint64_t now_ns) {
  if (floor_turns_ >= kMostFloorTurns) return nullptr;
  Owner* next = nullptr;
  double most = 0;
  const FloorPlace* const first = floors_.Front();
  for (int looks = 0; looks < kMostFloorLooks; ++looks) {
    FloorPlace* const place = floors_.Front();
    if (place == nullptr || (looks > 0 && place == first)) break;
    floors_.PushBack(place);
    ++looks_;
    const double behind = place->owner->rate->SecondsBehind(now_ns);
    if (behind <= most || place->owner->group->held) continue;
    most = behind;
    next = place->owner;
  }
  return next;
}

/// Returns the owner whose turn it is; null if none has anything to send, or may.
SendQueue::Owner* SendQueue::NextByTurn() {
  auto* const group = static_cast<Group*>(ready_.Next());
  return group == nullptr ? nullptr : static_cast<Owner*>(group->ready.Next());
}

/// Returns the job that may send for an owner that seems to be able to. If none may, finds the
/// owner's new place or puts it aside, and returns null.
SendQueue::Job* SendQueue::Admit(Owner* owner, uint64_t now_ns) {
  ++looks_;
  auto* const job = static_cast<Job*>(owner->jobs.Next());
  const Request* const send = job->Front();
  // The claim may be that of a send that has left.
  if (send == nullptr || static_cast<double>(send->left) != job->claim().left) {
    Place(job);
    return nullptr;
  }
  if (const double wait_ns = WaitNs(*owner->group, now_ns); wait_ns > 0) {
    Hold(owner->group, wait_ns, now_ns);
    return nullptr;
  }
  if (const double wait_ns = WaitNs(*owner, now_ns); wait_ns > 0) {
    Hold(owner, wait_ns, now_ns);
    return nullptr;
  }
  return job;
}

void SendQueue::Charge(const Request& send, size_t bytes) {
  Group* const group = groups_.Find(GroupOf(send.share));
  Job* const job = group == nullptr ? nullptr : group->jobs.Find(send.share.job);
  if (job == nullptr) return;
  Owner* const owner = job->owner;
  job->sent += bytes;
  if (owner->pace != nullptr) owner->pace->Charge(bytes);
  if (group->pace != nullptr) group->pace->Charge(bytes);
  if (owner->rate != nullptr) owner->rate->Charge(bytes);
  if (group->rate != nullptr) group->rate->Charge(bytes);
  // What a floor is for comes on top of the turns, but counts towards it whichever way it has gone.
  if (!by_floor_) {
    groups_.Charge(group, bytes);
    groups_.SetBack(&ready_);
    // Jobs weigh 1. Their clock counts bytes and is exact for 2^53 of them, so it stays.
    group->jobs.Charge(job, bytes);
  }
  Place(job);
}

// ---- Who has to wait ----

/// Returns the nanoseconds until an owner's limit and its cap let something go; 0: it may go now.
double SendQueue::WaitNs(const Owner& owner, uint64_t now_ns) const {
  const double pace_ns = owner.pace == nullptr ? 0 : owner.pace->WaitNs(now_ns);
  if (owner.rate == nullptr || !rates_->keeps_caps()) return pace_ns;
  return std::max(pace_ns, owner.rate->WaitNs(now_ns));
}

/// Returns the nanoseconds until the limit and the cap of a group's tenant let something go; 0: it
/// may go now.
double SendQueue::WaitNs(const Group& group, uint64_t now_ns) const {
  const double pace_ns = group.pace == nullptr ? 0 : group.pace->WaitNs(now_ns);
  if (group.rate == nullptr || !rates_->keeps_caps()) return pace_ns;
  return std::max(pace_ns, group.rate->WaitNs(now_ns));
}

void SendQueue::Hold(Owner* owner, double wait_ns, uint64_t now_ns) {
  owner->held = true;
  ++owner->group->held_owners;
  Place(owner);
  const double wait = std::min(wait_ns, WriterWaits::kLongestWaitNs);
  const double due = static_cast<double>(now_ns) + wait;
  held_owners_.Put(owner, {.number = owner->id, .start = due, .leads_from = due});
  // If the limit is lifted, this calls the writer earlier.
  if (owner->pace != nullptr) owner->pace->CallLater(writer_, wait, now_ns);
}

void SendQueue::Hold(Group* group, double wait_ns, uint64_t now_ns) {
  group->held = true;
  const double wait = std::min(wait_ns, WriterWaits::kLongestWaitNs);
  group->due_ns = now_ns + static_cast<uint64_t>(wait);
  Place(group);
  held_groups_.PushBack(group);
  // If the limit is lifted, this calls the writer earlier.
  if (group->pace != nullptr) group->pace->CallLater(writer_, wait, now_ns);
}

void SendQueue::Release(Owner* owner) {
  held_owners_.Remove(owner);
  owner->held = false;
  --owner->group->held_owners;
  Place(owner);
}

void SendQueue::Release(Group* group) {
  group->held = false;
  group->Unlink();
  Place(group);
}

void SendQueue::ReleaseDue(uint64_t now_ns) {
  const auto now = static_cast<double>(now_ns);
  for (;;) {
    TurnPlace* const first = held_owners_.Next();
    if (first == nullptr || first->claim().start > now) break;
    Release(static_cast<Owner*>(first));
  }
  for (Group* group = held_groups_.Front(); group != nullptr;) {
    Group* const after = held_groups_.After(group);
    if (group->due_ns <= now_ns) Release(group);
    group = after;
  }
}

/// Has the writer called when the first of those who are held may go on.
void SendQueue::CallWhenDue(uint64_t now_ns) {
  if (auto* const owner = static_cast<Owner*>(held_owners_.Next()); owner != nullptr) {
    CallLater(owner->pace, owner->claim().start - static_cast<double>(now_ns), now_ns);
  }
  for (Group* group = held_groups_.Front(); group != nullptr; group = held_groups_.After(group)) {
    CallLater(group->pace, static_cast<double>(group->due_ns - now_ns), now_ns);
  }
}

void SendQueue::CallLater(Pace* pace, double wait_ns, uint64_t now_ns) {
  if (pace != nullptr) {
    pace->CallLater(writer_, wait_ns, now_ns);
  } else if (rates_ != nullptr) {
    rates_->CallLater(writer_, wait_ns, now_ns);
  }
}

// ---- Settings ----

void SendQueue::SetPaces(const RailPaces& paces, Poller::Handler* writer) {
  paces_ = &paces;
  writer_ = writer;
  groups_.ForEach([this](Group& group) {
    group.owners.ForEach([this](Owner& owner) {
      SetPaces(&owner);
      if (owner.held) Release(&owner);
    });
    if (group.held) Release(&group);
  });
}

void SendQueue::SetRates(OwnerRates* rates, Poller::Handler* writer) {
  rates_ = rates;
  writer_ = writer;
}

void SendQueue::AddTraffic(std::vector<JobTraffic>* traffic) const {
  groups_.ForEach([traffic](const Group& group) {
    group.jobs.ForEach([&](const Job& job) {
      if (job.sent == 0) return;
      AddJobTraffic({static_cast<uint32_t>(group.id), job.id, group.weight, job.sent}, traffic);
    });
  });
}

void SendQueue::SetRate(double bytes_per_second) {
  lead_ = kLeadSeconds * bytes_per_second;
  groups_.set_lead(lead_);
}

}  // namespace harmonaize::transport
