#include "src/transport/send_queue.h"

#include <algorithm>

namespace harmonaize::transport {

/// The job of a send that is now to wait in it.
SendQueue::Job* SendQueue::Waiting(const Request& send) {
  Tenant* tenant = tenants_.Of(send.share.tenant);
  tenant->own_weight = send.share.weight;
  tenant->weight = WeightOf(send.share.tenant, send.share.weight);
  tenant->jobs.set_lead(lead_);
  Job* job = tenant->jobs.Of(send.share.job);
  tenants_.Want(tenant);
  tenant->jobs.Want(job);
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

SendQueue::Turn SendQueue::Next() {
  Tenant* tenant = tenants_.Next();
  if (tenant == nullptr) return {};
  Job* job = tenant->jobs.Next();
  if (Request* send = job->small.PopFront(); send != nullptr) return {send, false};
  return {job->bulk.Pop(), true};
}

void SendQueue::Charge(const Request& send, size_t bytes) {
  Tenant* tenant = tenants_.Of(send.share.tenant);
  tenants_.Charge(tenant, bytes);
  Job* job = tenant->jobs.Of(send.share.job);
  job->sent += bytes;
  tenant->jobs.Charge(job, bytes);
  if (send.share.tenant != last_) before_last_ = sent_;
  last_ = send.share.tenant;
  sent_ += bytes;
}

double SendQueue::WeightOf(uint32_t tenant, double own) const {
  const auto found = std::lower_bound(
      weights_.begin(), weights_.end(), tenant,
      [](const RailLimit::Weight& one, uint32_t wanted) { return one.tenant < wanted; });
  return found != weights_.end() && found->tenant == tenant ? found->weight : own;
}

void SendQueue::SetWeights(std::span<const RailLimit::Weight> weights) {
  weights_.assign(weights.begin(), weights.end());
  std::sort(weights_.begin(), weights_.end(),
            [](const auto& a, const auto& b) { return a.tenant < b.tenant; });
}

void SendQueue::AddTraffic(std::vector<JobTraffic>* traffic) const {
  tenants_.ForEach([traffic](const Tenant& tenant) {
    tenant.jobs.ForEach([&](const Job& job) {
      if (job.sent == 0) return;
      AddJobTraffic({static_cast<uint32_t>(tenant.id), job.id, tenant.own_weight, job.sent},
                    traffic);
    });
  });
}

void SendQueue::SetRate(double bytes_per_second) {
  lead_ = kLeadSeconds * bytes_per_second;
  tenants_.set_lead(lead_);
}

}  // namespace harmonaize::transport
