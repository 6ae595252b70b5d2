#include "src/transport/queue/send_queue.h"

#include "src/base/clock.h"

namespace harmonaize::transport {

/// Returns the job in which a send is now to wait.
SendQueue::Job* SendQueue::Waiting(const Request& send) {
  const TenantShare& share = send.share;
  Group* group = groups_.Of(GroupOf(share));
  group->weight = share.weight;
  group->jobs.set_lead(lead_);
  Job* job = group->jobs.Of(share.job);
  job->queue = this;
  job->tenant = share.tenant;
  job->owner = share.owner;
  job->pace = paces_ == nullptr ? nullptr : paces_->Of(share.tenant, share.owner);
  const bool limited = share.floor > 0 || share.cap > 0 || share.tenant_cap > 0;
  if (rates_ != nullptr && (limited || !rates_->empty())) {
    rates_->Note(share, MonotonicNanoseconds());
  }
  groups_.Want(group);
  group->jobs.Want(job);
  return job;
}

void SendQueue::Push(Request* send) {
  Waiting(*send)->small.PushBack(send);
}

void SendQueue::PushBulk(Request* send) {
  Waiting(*send)->bulk.Push(send);
}

void SendQueue::ReturnBulk(Request* send) {
  Waiting(*send)->bulk.Return(send);
}

/// Returns whether a job has to wait for its limit, its owner's cap or its tenant's.
bool SendQueue::Holds(const Job& job) {
  if (job.pace != nullptr && !job.pace->Admit(writer_)) return true;
  return rates_ != nullptr && !rates_->Admit(job.tenant, job.owner, writer_);
}

/// Returns the job whose owner is furthest behind its floor, if any is and may send.
SendQueue::Job* SendQueue::NextByFloor() {
  if (rates_ == nullptr || rates_->empty() || floor_turns_ >= kMostFloorTurns) return nullptr;
  const uint64_t now_ns = MonotonicNanoseconds();
  Job* next = nullptr;
  double most = 0;
  groups_.ForEach([&](Group& group) {
    group.jobs.ForEach([&](Job& job) {
      if (!job.HasSends()) return;
      OwnerRate* const rate = rates_->Of(job.tenant, job.owner);
      const double behind = rate == nullptr ? 0 : rate->SecondsBehind(now_ns);
      if (behind <= most || Holds(job)) return;
      most = behind;
      next = &job;
    });
  });
  return next;
}

SendQueue::Turn SendQueue::Next() {
  Job* job = NextByFloor();
  by_floor_ = job != nullptr;
  floor_turns_ = by_floor_ ? floor_turns_ + 1 : 0;
  if (job == nullptr) {
    Group* const group = groups_.Next();
    if (group == nullptr) return {};
    job = group->jobs.Next();
  }
  if (Request* send = job->small.PopFront(); send != nullptr) return {send, false};
  return {job->bulk.Pop(), true};
}

void SendQueue::Charge(const Request& send, size_t bytes) {
  Group* group = groups_.Of(GroupOf(send.share));
  Job* job = group->jobs.Of(send.share.job);
  job->sent += bytes;
  if (job->pace != nullptr) job->pace->Charge(bytes);
  if (rates_ != nullptr) rates_->Charge(send.share.tenant, send.share.owner, bytes);
  // What a floor is for comes on top of the turns, but counts towards it whichever way it has gone.
  if (by_floor_) return;
  groups_.Charge(group, bytes);
  group->jobs.Charge(job, bytes);
}

void SendQueue::SetPaces(const RailPaces& paces, Poller::Handler* writer) {
  paces_ = &paces;
  writer_ = writer;
  groups_.ForEach([&](Group& group) {
    group.jobs.ForEach([&](Job& job) { job.pace = paces.Of(job.tenant, job.owner); });
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
