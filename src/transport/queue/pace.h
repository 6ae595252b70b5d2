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

/// Holds those who write something to a rate, together (a token bucket): what may not go yet waits
/// with the writer, who can still change its mind about the order. For the poller's thread.
class Pace final : private Poller::Handler {
 public:
  /// Errors: kSystemError. `poller` must outlive the pace.
  static Result<std::unique_ptr<Pace>> Create(Poller* poller, double bytes_per_second);
  Pace(Poller* poller, FileDescriptor timer) : poller_(poller), timer_(std::move(timer)) {}
  /// Calls who waits.
  ~Pace();

  /// kLeastRate at least.
  void SetRate(double bytes_per_second);

  /// Whether something may be written now; what is, is told by Charge. Else OnLater of `writer` is
  /// called when it may, unless it is forgotten before.
  bool Admit(Poller::Handler* writer);
  void Charge(size_t bytes) { tokens_ -= static_cast<double>(bytes); }
  void Forget(Poller::Handler* writer);

  /// Below this a daemon's own messages would seem to have got stuck.
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

/// The paces of those tenants who are limited on a rail; all of its connections share them.
class TenantPaces {
 public:
  explicit TenantPaces(Poller* poller) : poller_(poller) {}

  /// From now on. Pointers that were had before are void for tenants who are limited no more.
  /// A tenant for whom there is no timer goes without.
  void Set(const RailLimits& limits);
  /// nullptr: it is not limited.
  Pace* Of(uint32_t tenant) const;
  bool empty() const { return paces_.empty(); }
  void Forget(Poller::Handler* writer);

 private:
  Poller* const poller_;
  std::map<uint32_t, std::unique_ptr<Pace>> paces_;
};

}  // namespace harmonaize::transport
