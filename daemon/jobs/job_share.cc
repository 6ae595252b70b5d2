#include "daemon/jobs/job_share.h"

#include <algorithm>
#include <bit>

#include "src/base/mix_bits.h"
#include "src/topology/estimates/share_out.h"

namespace harmonaize::daemon {

uint64_t OwnerOf(const Job& job, std::string_view communicator) {
  uint64_t owner = job.id.number();
  const SharingTerms whole = job.terms->SharingOf("");
  const SharingTerms own = job.terms->SharingOf(communicator);
  const bool alike = whole.floor_bytes_per_second == own.floor_bytes_per_second &&
                     whole.cap_bytes_per_second == own.cap_bytes_per_second;
  if (!alike) {
    owner = MixBits(owner ^ std::bit_cast<uint64_t>(own.floor_bytes_per_second));
    owner = MixBits(owner ^ std::bit_cast<uint64_t>(own.cap_bytes_per_second));
  }
  return std::max<uint64_t>(owner, 1);
}

transport::TenantShare ShareOf(const Job& job, std::string_view communicator, uint64_t key) {
  const SharingTerms terms = job.terms->SharingOf(communicator);
  const int priority = std::clamp(terms.priority, 0, kMostPriority);
  const double weight = job.tenant->weight * PriorityFactor(priority);
  return {.tenant = job.tenant->identity.across_hosts,
          .weight = static_cast<float>(std::min(weight, transport::kMostWeight)),
          .job = key,
          .owner = OwnerOf(job, communicator),
          .priority = static_cast<uint8_t>(priority),
          .floor = static_cast<float>(terms.floor_bytes_per_second),
          .cap = static_cast<float>(terms.cap_bytes_per_second),
          .tenant_floor = static_cast<float>(job.tenant->link_bounds.most_floor),
          .tenant_cap = static_cast<float>(job.tenant->link_bounds.most_cap)};
}

const transport::TenantShare& CommunicatorShare::Of(const Job& job) {
  if (terms_ == job.terms && bounds_ == job.tenant->link_bounds) return share_;
  terms_ = job.terms;
  bounds_ = job.tenant->link_bounds;
  share_ = ShareOf(job, name_, key_);
  floor_ = terms_->SharingOf(name_).floor_bytes_per_second;
  if (floor_ == refused_floor_) share_.floor = 0;
  return share_;
}

void CommunicatorShare::SetRefusedFloor(double floor) {
  if (floor == refused_floor_) return;
  refused_floor_ = floor;
  terms_.reset();
}

}  // namespace harmonaize::daemon
