#pragma once

#include <algorithm>
#include <cstdint>

namespace harmonaize {

/// How many others may have to be woken, one after the other, before what one waits for can come,
/// when all of them sleep. On one host that is the daemon. Between hosts a rank waits for its own
/// daemon, a packet wakes the other one, the rank there is woken with the end of the operation
/// before, wakes its daemon, and that daemon's packet wakes the first one again.
inline constexpr uint32_t kSleepersOnOneHost = 1;
inline constexpr uint32_t kSleepersAcrossHosts = 5;

/// How long it pays to look for what is awaited before one sleeps, learnt from how long the last
/// waits took. To look for as long as being woken takes is never more than twice as bad as the best
/// choice could have been; and where waits have been longer than that of late, looking is a waste
/// and sleeping at once is better (Karlin, Li, Manasse and Owicki, "Empirical studies of
/// competitive spinning for a shared-memory multiprocessor", SOSP 1991). For one thread at a time.
class WaitEstimate {
 public:
  /// A wait begins on a host where waking a sleeper takes `wake_up_ns`, for an answer that may wait
  /// for as many other `sleepers`: how long to look. 0: sleep at once.
  uint64_t BeginWait(uint64_t wake_up_ns, uint32_t sleepers = kSleepersOnOneHost) {
    wake_up_ns_ = std::clamp(wake_up_ns, kLeastWakeUp, kMostWakeUp);
    // Twice as long as waking all takes, and not once this thread, as in the paper: who is awaited
    // sleeps as well when this thread does. Looking for no longer than waking them takes, those
    // that wait for each other would teach each other to sleep.
    longest_look_ns_ = 2 * (1 + uint64_t{std::min(sleepers, kSleepersAcrossHosts)}) * wake_up_ns_;
    if (looks_ || ++sleeps_ % kSleepsBetweenTries == 0) return longest_look_ns_;
    return 0;
  }

  /// It has ended after `waited_ns`, and `slept` says whether in sleep.
  void EndWait(uint64_t waited_ns, bool slept) {
    // What the sleeper saw is longer than the wait by its own waking up.
    if (slept) waited_ns -= std::min(waited_ns, wake_up_ns_);
    // One long wait among short ones does not count for more than a few of them.
    const auto sample =
        static_cast<int64_t>(std::min(waited_ns, kLongestSample * longest_look_ns_));
    expected_ns_ += (sample - expected_ns_) / kWeight;
    const auto expected = static_cast<uint64_t>(expected_ns_);
    // Between the two it goes on as before.
    if (expected > longest_look_ns_) looks_ = false;
    if (expected < longest_look_ns_ / 4 * 3) looks_ = true;
  }

  /// What the next wait is expected to take.
  uint64_t expected_ns() const { return static_cast<uint64_t>(expected_ns_); }

 private:
  /// Of the longest looks.
  static constexpr uint64_t kLongestSample = 4;
  static constexpr int64_t kWeight = 8;
  /// Every so often a sleeper looks nevertheless: the measure with the sleep taken off is rough.
  static constexpr uint32_t kSleepsBetweenTries = 32;
  /// Bounds for what was measured on a host: a look of a few microseconds costs nobody anything,
  /// and no wait may take a processor for longer than some hundred.
  static constexpr uint64_t kLeastWakeUp = 2'000;
  static constexpr uint64_t kMostWakeUp = 50'000;

  uint64_t wake_up_ns_ = kLeastWakeUp;
  uint64_t longest_look_ns_ = 0;
  int64_t expected_ns_ = 0;
  uint32_t sleeps_ = 0;
  bool looks_ = true;
};

}  // namespace harmonaize
