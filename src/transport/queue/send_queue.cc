#include "src/transport/queue/send_queue.h"

namespace harmonaize::transport {

/// Returns the job in which a send is now to wait.
SendQueue::Job* SendQueue::Waiting(const Request& send) {
  Tenant* tenant = tenants_.Of(send.share.tenant);
  tenant->weight = send.share.weight;
  tenant->pace = paces_ == nullptr ? nullptr : paces_->Of(send.share.tenant);
  tenant->writer = writer_;
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
  if (tenant->pace != nullptr) tenant->pace->Charge(bytes);
  tenants_.Charge(tenant, bytes);
  Job* job = tenant->jobs.Of(send.share.job);
  job->sent += bytes;
  tenant->jobs.Charge(job, bytes);
}

void SendQueue::SetPaces(const TenantPaces& paces, Poller::Handler* writer) {
  paces_ = &paces;
  writer_ = writer;
  tenants_.ForEach([&](Tenant& tenant) {
    tenant.pace = paces.Of(static_cast<uint32_t>(tenant.id));
    tenant.writer = writer;
  });
}

void SendQueue::AddTraffic(std::vector<JobTraffic>* traffic) const {
  tenants_.ForEach([traffic](const Tenant& tenant) {
    tenant.jobs.ForEach([&](const Job& job) {
      if (job.sent == 0) return;
      AddJobTraffic({static_cast<uint32_t>(tenant.id), job.id, tenant.weight, job.sent}, traffic);
    });
  });
}

void SendQueue::SetRate(double bytes_per_second) {
  lead_ = kLeadSeconds * bytes_per_second;
  tenants_.set_lead(lead_);
}

}  // namespace harmonaize::transport
