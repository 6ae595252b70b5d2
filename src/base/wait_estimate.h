#pragma once

#include <algorithm>
#include <cstdint>

namespace harmonaize {

/// Number of sleepers that may have to be woken, one after the other, before an awaited event can
/// come, when all of them sleep. On one host that is the daemon. Between hosts a rank waits for its
/// own daemon, a packet wakes the other one, the rank there is woken with the end of the operation
/// before, wakes its daemon, and that daemon's packet wakes the first one again.
inline constexpr uint32_t kSleepersOnOneHost = 1;
inline constexpr uint32_t kSleepersAcrossHosts = 5;

/// Estimates how long polling for an event pays before sleeping, from the length of the last waits.
/// Polling for as long as being woken takes is never more than twice as bad as the best choice
/// could have been. If waits have been longer than that lately, polling is a waste and sleeping at
/// once is better (Karlin, Li, Manasse and Owicki, "Empirical studies of competitive spinning for a
/// shared-memory multiprocessor", SOSP 1991). Thread: one at a time.
class WaitEstimate {
 public:
  /// Begins a wait on a host where waking a sleeper takes `wake_up_ns`, for an answer that may wait
  /// for as many other `sleepers`. Returns how long to poll; 0: sleep at once.
  uint64_t BeginWait(uint64_t wake_up_ns, uint32_t sleepers = kSleepersOnOneHost) {
    wake_up_ns_ = std::clamp(wake_up_ns, kLeastWakeUp, kMostWakeUp);
    // The limit is twice the time of waking all sleepers, not just this thread as in the paper,
    // because the awaited threads sleep as well when this one does. With a limit of only the time
    // to wake them, threads that wait for each other would teach each other to sleep.
    longest_look_ns_ = 2 * (1 + uint64_t{std::min(sleepers, kSleepersAcrossHosts)}) * wake_up_ns_;
    if (looks_ || ++sleeps_ % kSleepsBetweenTries == 0) return longest_look_ns_;
    return 0;
  }

  /// Ends a wait that took `waited_ns`; `slept` tells whether the thread slept.
  void EndWait(uint64_t waited_ns, bool slept) {
    // A sleeper sees the wait lengthened by its own waking up.
    if (slept) waited_ns -= std::min(waited_ns, wake_up_ns_);
    // One long wait among short ones counts for no more than a few of them.
    const auto sample =
        static_cast<int64_t>(std::min(waited_ns, kLongestSample * longest_look_ns_));
    expected_ns_ += (sample - expected_ns_) / kWeight;
    const auto expected = static_cast<uint64_t>(expected_ns_);
    // Between the two bounds the choice stays as it was.
    if (expected > longest_look_ns_) looks_ = false;
    if (expected < longest_look_ns_ / 4 * 3) looks_ = true;
  }

  /// Returns the expected length of the next wait.
  uint64_t expected_ns() const { return static_cast<uint64_t>(expected_ns_); }

 private:
  /// Longest sample of a wait, in longest polls.
  static constexpr uint64_t kLongestSample = 4;
  /// A sample changes the expected wait by one part in this many of the difference.
  static constexpr int64_t kWeight = 8;
  /// A sleeper polls once in this many sleeps nevertheless: the length with the sleep taken off is
  /// inexact.
  static constexpr uint32_t kSleepsBetweenTries = 32;
  /// Lower bound of the measured wake-up time, in nanoseconds: polling for a few microseconds costs
  /// nobody anything.
  static constexpr uint64_t kLeastWakeUp = 2'000;
  /// Upper bound of it: no wait may take a processor for longer than some hundred microseconds.
  static constexpr uint64_t kMostWakeUp = 50'000;

  uint64_t wake_up_ns_ = kLeastWakeUp;
  uint64_t longest_look_ns_ = 0;
  int64_t expected_ns_ = 0;
  uint32_t sleeps_ = 0;
  bool looks_ = true;
};

}  // namespace harmonaize
