#pragma once

#include <atomic>
#include <cstdint>

namespace harmonaize::daemon {

/// The processor's time that one tenant may use for its connections and requests: a quarter of one
/// processor. The engine's time for them counts. Operations are not requests, and a job makes most
/// of its requests when it starts. Thread: one, except for SpendElsewhere.
class Allowance {
 public:
  Allowance();

  /// Returns whether nothing is left now.
  bool spent();
  /// Charges time of this thread, or time of another thread for which this one waited, in
  /// nanoseconds.
  void Spend(int64_t nanoseconds) { left_ns_ -= nanoseconds; }
  /// Charges time of another thread, which calls this itself. Thread: any.
  void SpendElsewhere(int64_t nanoseconds) {
    elsewhere_ns_.fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  /// Sleeps if nothing is left, until something is, but for 10 ms at most. So a flood of
  /// connections and messages is dealt with at the pace of the allowance, and waits in the kernel
  /// meanwhile.
  void RestIfSpent();

 private:
  void Refill();

  int64_t left_ns_;  ///< Below 0 the tenant waits.
  uint64_t refilled_at_ns_;
  std::atomic<int64_t> elsewhere_ns_{0};  ///< Used, and not taken off `left_ns_` yet.
};

}  // namespace harmonaize::daemon
