#include "daemon/quota/holdings.h"

#include <algorithm>
#include <string_view>

namespace harmonaize::daemon {

const char* ResourceName(Resource resource) {
  switch (resource) {
    case Resource::kConnections: return "connections";
    case Resource::kSessions: return "sessions";
    case Resource::kRegions: return "regions";
    case Resource::kRegisteredBytes: return "bytes of registered memory";
    case Resource::kRegionDescriptors: return "descriptors of regions";
    case Resource::kUniqueIds: return "unique ids";
    case Resource::kCommunicators: return "communicators";
    case Resource::kRanks: return "ranks";
    case Resource::kTickets: return "tickets";
    case Resource::kNewcomers: return "newcomers";
    case Resource::kMemory: return "bytes of the daemon's memory";
    case Resource::kCheckpointBytes: return "bytes of checkpoints in memory";
  }
  return "resources";
}

/// Returns the key of the configuration that bounds a resource; "": none does.
static std::string_view QuotaKey(Resource resource) {
  switch (resource) {
    case Resource::kConnections: return "connections";
    case Resource::kSessions: return "sessions";
    case Resource::kRegions: return "regions";
    case Resource::kRegisteredBytes: return "region_bytes";
    case Resource::kUniqueIds: return "unique_ids";
    case Resource::kCommunicators: return "communicators";
    case Resource::kRanks: return "ranks";
    case Resource::kTickets: return "tickets";
    case Resource::kNewcomers: return "newcomers";
    case Resource::kMemory: return "memory_bytes";
    case Resource::kCheckpointBytes: return "checkpoint_bytes";
    case Resource::kRegionDescriptors: return "";
  }
  return "";
}

HostHoldings::HostHoldings(ResourceLimits limits)
    : limits_([&] {
        for (ResourceLimit& limit : limits) {
          limit.for_each = std::min(limit.for_each, kMostOfAResource);
          limit.for_all = std::min(limit.for_all, kMostOfAResource);
        }
        return limits;
      }()) {}

std::string Account::name() const {
  const std::lock_guard lock(mutex_);
  return name_;
}

void Account::SetName(std::string name) {
  const std::lock_guard lock(mutex_);
  name_ = std::move(name);
}

// No amount exceeds a limit, so the sums stay below three times kMostOfAResource. Two threads that
// take the last of something at the same time may both be refused.
Result<Holding> Account::Take(Resource resource, int64_t amount) {
  const auto index = static_cast<size_t>(resource);
  const ResourceLimit& limit = host_->limit(resource);
  // Such an amount could overflow the sums.
  const bool possible = amount >= 0 && amount <= limit.for_each && amount <= limit.for_all;
  const int64_t held = possible ? held_[index].fetch_add(amount, std::memory_order_relaxed)
                                : held_[index].load(std::memory_order_relaxed);
  int64_t left = 0;
  if (possible) {
    const int64_t before = host_->held_[index].fetch_add(amount, std::memory_order_relaxed);
    left = limit.for_all - before - amount;
    if (held + amount <= limit.for_each && held + amount <= left) {
      return Holding(shared_from_this(), resource, amount);
    }
    GiveBack(resource, amount);
  }
  if (!possible || held + amount > limit.for_each) {
    return InvalidUsage(
        "user {} already holds {} {} on this host, and {} more would exceed the provider's quota "
        "of {}{}{}",
        name(), held, ResourceName(resource), amount, limit.for_each,
        QuotaKey(resource).empty() ? "" : ": ask the provider for a larger quota.",
        QuotaKey(resource));
  }
  return InvalidUsage(
      "user {} already holds {} {} on this host, and {} more would be more than is then left for "
      "all others ({} of {})",
      name(), held, ResourceName(resource), amount, left < 0 ? 0 : left, limit.for_all);
}

void Account::GiveBack(Resource resource, int64_t amount) {
  const auto index = static_cast<size_t>(resource);
  held_[index].fetch_sub(amount, std::memory_order_relaxed);
  host_->held_[index].fetch_sub(amount, std::memory_order_relaxed);
}

Status Holding::Add(int64_t amount) {
  if (account_ == nullptr) return InvalidUsage("nothing was paid for that this could add to");
  HZ_ASSIGN_OR_RETURN(Holding more, account_->Take(resource_, amount));
  amount_ += std::exchange(more.amount_, 0);
  return Status::Ok();
}

void Holding::Reset() {
  if (amount_ != 0) account_->GiveBack(resource_, std::exchange(amount_, 0));
  account_.reset();
}

}  // namespace harmonaize::daemon
