#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/transport/link/rail_limit.h"
#include "src/transport/queue/token_bucket.h"
#include "src/transport/tcp/poller.h"

namespace harmonaize::transport {

/// Calls writers later, once they may go on. Thread: one, the poller's.
class WriterWaits final : private Poller::Handler {
 public:
  /// Errors: kSystemError. `poller` must outlive this object.
  static Result<std::unique_ptr<WriterWaits>> Create(Poller* poller);
  WriterWaits(Poller* poller, FileDescriptor timer) : poller_(poller), timer_(std::move(timer)) {}
  /// Calls all who wait.
  ~WriterWaits();

  /// Has OnLater of `writer` called about `wait_ns` after `now_ns`, or earlier, unless it is
  /// forgotten before.
  void Add(Poller::Handler* writer, double wait_ns, uint64_t now_ns);
  void Forget(Poller::Handler* writer);

  /// Longest time, in nanoseconds, after which a writer that waits looks again: so a limit that was
  /// lifted meanwhile does not hold for longer.
  static constexpr double kLongestWaitNs = 1e9;

 private:
  void OnReady(uint32_t events) override;
  void Wake();

  Poller* const poller_;
  const FileDescriptor timer_;
  uint64_t due_ns_ = 0;  // when the timer ends; only while anybody waits
  std::vector<Poller::Handler*> waiting_;
};

/// Limits several writers together to a rate. Data that may not go yet waits with its writer, which
/// can still change the order. Thread: one, the poller's.
class Pace {
 public:
  /// Errors: kSystemError. `poller` must outlive the pace.
  static Result<std::unique_ptr<Pace>> Create(Poller* poller, double bytes_per_second);
  /// Calls the waiting writers when it ends.
  Pace(std::unique_ptr<WriterWaits> waits, double bytes_per_second);

  /// Sets the rate; it is at least kLeastRate.
  void SetRate(double bytes_per_second);

  /// Returns the nanoseconds until something may be written; 0: it may be written now, and the
  /// writer then reports the bytes by Charge.
  double WaitNs(uint64_t now_ns) { return tokens_.At(now_ns) > 0 ? 0 : tokens_.WaitNs(); }
  void Charge(size_t bytes) { tokens_.Charge(bytes); }
  /// Has OnLater of `writer` called about `wait_ns` after `now_ns`, or earlier, unless it is
  /// forgotten before.
  void CallLater(Poller::Handler* writer, double wait_ns, uint64_t now_ns) {
    waits_->Add(writer, wait_ns, now_ns);
  }
  void Forget(Poller::Handler* writer) { waits_->Forget(writer); }

  /// Least rate, in bytes per second: below it a daemon's own messages would seem to be stuck.
  static constexpr double kLeastRate = 1e5;

 private:
  const std::unique_ptr<WriterWaits> waits_;
  TokenBucket tokens_;
};

/// The paces of the owners and tenants that are limited on a rail, shared by all of its
/// connections.
class RailPaces {
 public:
  explicit RailPaces(Poller* poller) : poller_(poller) {}

  /// Replaces the limits. Pointers to paces of owners that are not limited any more become invalid.
  /// An owner for which no timer can be made is not limited.
  void Set(const RailLimits& limits);
  /// Returns the pace of an owner; nullptr: it is not limited, but its tenant may be.
  Pace* Of(uint32_t tenant, uint64_t owner) const;
  /// Returns the pace of all owners of a tenant together; nullptr: they are not limited.
  Pace* OfTenant(uint32_t tenant) const { return Of(tenant, kWholeTenant); }
  bool empty() const { return paces_.empty(); }
  void Forget(Poller::Handler* writer);

 private:
  using Owner = std::pair<uint32_t, uint64_t>;  // with the tenant
  /// Stands for all owners of a tenant (OwnerLimit::owner).
  static constexpr uint64_t kWholeTenant = 0;

  Poller* const poller_;
  std::map<Owner, std::unique_ptr<Pace>> paces_;
};

}  // namespace harmonaize::transport
