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

  /// Whether nothing is left now.
  bool spent();
  /// So much of this thread's time was used, in nanoseconds; or of another's, while this one
  /// waited.
  void Spend(int64_t nanoseconds) { left_ns_ -= nanoseconds; }
  /// The same of another thread's, which says so itself. Any thread.
  void SpendElsewhere(int64_t nanoseconds) {
    elsewhere_ns_.fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  /// Sleeps until something is left, but not for long: a flood of connections, and of what they
  /// say, is dealt with at the pace of the allowance, and waits in the kernel meanwhile.
  void RestIfSpent();

 private:
  void Refill();

  int64_t left_ns_;  ///< Below 0 the tenant waits.
  uint64_t refilled_at_ns_;
  std::atomic<int64_t> elsewhere_ns_{0};  ///< Used, and not taken off `left_ns_` yet.
};

/// The processor's time that the calling thread has used, in nanoseconds.
int64_t ThreadNanoseconds();

}  // namespace harmonaize::daemon
