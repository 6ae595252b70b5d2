#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/transport/link/rail_limit.h"
#include "src/transport/tcp/poller.h"

namespace harmonaize::transport {

/// Limits several writers together to a rate (a token bucket). Data that may not go yet waits with
/// its writer, which can still change the order. Thread: one, the poller's.
class Pace final : private Poller::Handler {
 public:
  /// Errors: kSystemError. `poller` must outlive the pace.
  static Result<std::unique_ptr<Pace>> Create(Poller* poller, double bytes_per_second);
  Pace(Poller* poller, FileDescriptor timer) : poller_(poller), timer_(std::move(timer)) {}
  /// Calls the waiting writers.
  ~Pace();

  /// Sets the rate; it is at least kLeastRate.
  void SetRate(double bytes_per_second);

  /// Returns whether something may be written now; the writer then reports the bytes by Charge. If
  /// not, OnLater of `writer` is called once it may, unless it is forgotten before.
  bool Admit(Poller::Handler* writer);
  void Charge(size_t bytes) { tokens_ -= static_cast<double>(bytes); }
  void Forget(Poller::Handler* writer);

  /// Least rate, in bytes per second: below it a daemon's own messages would seem to be stuck.
  static constexpr double kLeastRate = 1e5;

 private:
  void OnReady(uint32_t events) override;
  void Refill();
  void Wake();

  Poller* const poller_;
  const FileDescriptor timer_;
  double bytes_per_ns_ = 0;
  double tokens_ = 0;  // bytes; below 0: owed
  uint64_t refilled_ns_ = 0;
  std::vector<Poller::Handler*> waiting_;
};

/// The paces of the tenants that are limited on a rail, shared by all of its connections.
class TenantPaces {
 public:
  explicit TenantPaces(Poller* poller) : poller_(poller) {}

  /// Replaces the limits. Pointers to paces of tenants that are not limited any more become
  /// invalid. A tenant for which no timer can be made is not limited.
  void Set(const RailLimits& limits);
  /// Returns the pace of a tenant; nullptr: it is not limited.
  Pace* Of(uint32_t tenant) const;
  bool empty() const { return paces_.empty(); }
  void Forget(Poller::Handler* writer);

 private:
  Poller* const poller_;
  std::map<uint32_t, std::unique_ptr<Pace>> paces_;
};

}  // namespace harmonaize::transport
