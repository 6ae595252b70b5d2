#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// A resource of the daemon of which other tenants lack what one tenant takes.
enum class Resource : uint8_t {
  kConnections,        ///< Sockets, with or without a session.
  kSessions,           ///< Processes that have said hello.
  kRegions,            ///< Pieces of registered memory; each is a mapping of the daemon's.
  kRegisteredBytes,    ///< Bytes of registered memory.
  kRegionDescriptors,  ///< Descriptors kept of regions, so that ranks can map each other's.
  kUniqueIds,          ///< Ids of communicators that have not formed.
  kCommunicators,
  kRanks,            ///< Ranks on this host, of communicators that exist or form.
  kTickets,          ///< Tickets that may be used.
  kNewcomers,        ///< Newcomers that wait for a place in a job.
  kMemory,           ///< Bytes of the daemon's own memory that grow with what a tenant asks for.
  kCheckpointBytes,  ///< Bytes of the host's memory that keep checkpoints beyond their ranks' end.
};
inline constexpr size_t kResourceCount = 12;

/// Returns the resource's name for error messages and reports, such as "unique ids".
const char* ResourceName(Resource resource);

struct ResourceLimit {
  int64_t for_each = 0;  ///< Most that one tenant may hold.
  int64_t for_all = 0;   ///< Most that all tenants together may hold.
};
using ResourceLimits = std::array<ResourceLimit, kResourceCount>;

/// How much of each resource all tenants together hold. Thread: any.
class HostHoldings {
 public:
  /// Lowers limits above kMostOfAResource to it, so that no sum overflows.
  explicit HostHoldings(ResourceLimits limits);
  /// Largest limit of a resource, in its unit. Sums stay below three times this, which fits in 64
  /// bits.
  static constexpr int64_t kMostOfAResource = int64_t{1} << 60;

  const ResourceLimit& limit(Resource resource) const {
    return limits_[static_cast<size_t>(resource)];
  }
  int64_t held(Resource resource) const {
    return held_[static_cast<size_t>(resource)].load(std::memory_order_relaxed);
  }

 private:
  friend class Account;

  const ResourceLimits limits_;
  std::array<std::atomic<int64_t>, kResourceCount> held_{};
};

class Holding;

/// How much of each resource one tenant holds. Thread: any.
///
/// A tenant gets more of a resource if it stays within its own limit and holds no more than is then
/// left. So one tenant alone can hold half of what there is, a second one a quarter and so on, and
/// a newcomer always finds something (the dynamic thresholds of Choudhury and Hahne, 1998).
class Account : public std::enable_shared_from_this<Account> {
 public:
  Account(std::shared_ptr<HostHoldings> host, std::string name)
      : host_(std::move(host)), name_(std::move(name)) {}

  std::string name() const;
  /// Replaces the name that people read, once a better one is known.
  void SetName(std::string name);
  /// Charges the tenant for `amount` of a resource, until the returned Holding ends. Returns
  /// kInvalidUsage, with what is held and the limit, if that would be too much.
  Result<Holding> Take(Resource resource, int64_t amount);
  int64_t held(Resource resource) const {
    return held_[static_cast<size_t>(resource)].load(std::memory_order_relaxed);
  }
  const HostHoldings& host() const { return *host_; }

  /// Notes processor time that the tenant's connections and requests have taken, in nanoseconds.
  void NoteRequestTime(int64_t nanoseconds) {
    if (nanoseconds > 0) {
      request_ns_.fetch_add(static_cast<uint64_t>(nanoseconds), std::memory_order_relaxed);
    }
  }
  /// All such time since the account was made, in nanoseconds.
  uint64_t request_nanoseconds() const { return request_ns_.load(std::memory_order_relaxed); }

 private:
  friend class Holding;

  void GiveBack(Resource resource, int64_t amount);

  const std::shared_ptr<HostHoldings> host_;
  mutable std::mutex mutex_;
  std::string name_;  // guarded by mutex_
  std::array<std::atomic<int64_t>, kResourceCount> held_{};
  std::atomic<uint64_t> request_ns_{0};
};

/// An amount of a resource that a tenant holds. Its destruction, on any thread, gives the amount
/// back.
class Holding {
 public:
  Holding() = default;
  ~Holding() { Reset(); }
  Holding(Holding&& other) noexcept
      : account_(std::move(other.account_)),
        resource_(other.resource_),
        amount_(std::exchange(other.amount_, 0)) {}
  Holding& operator=(Holding&& other) noexcept {
    if (this != &other) {
      Reset();
      account_ = std::move(other.account_);
      resource_ = other.resource_;
      amount_ = std::exchange(other.amount_, 0);
    }
    return *this;
  }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

  int64_t amount() const { return amount_; }
  /// Takes `amount` more of the same resource for the same tenant.
  Status Add(int64_t amount);
  void Reset();

 private:
  friend class Account;
  Holding(std::shared_ptr<Account> account, Resource resource, int64_t amount)
      : account_(std::move(account)), resource_(resource), amount_(amount) {}

  std::shared_ptr<Account> account_;
  Resource resource_ = Resource::kConnections;
  int64_t amount_ = 0;
};

}  // namespace harmonaize::daemon
