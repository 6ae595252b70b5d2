#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace harmonaize {

/// Learns, while running, how fast one thread moves bytes (read and written). Operations that fit
/// the last-level cache and larger ones are kept apart.
///
/// Thread: any. If two threads learn at once, one of two samples of thousands may be lost.
class Throughput {
 public:
  /// Replaces the rate of a class, in bytes per second of one thread.
  void Set(bool beyond_cache, double bytes_per_second) {
    Rate(beyond_cache).store(static_cast<float>(bytes_per_second), std::memory_order_relaxed);
  }

  /// Learns from one unit. Short units are left out: they measure the clock and the cold start.
  void Learn(bool beyond_cache, uint64_t bytes, uint64_t nanoseconds) {
    if (bytes < kSmallestSampleBytes || nanoseconds == 0) return;
    std::atomic<float>& rate = Rate(beyond_cache);
    const float measured = static_cast<float>(bytes) * 1e9F / static_cast<float>(nanoseconds);
    // Relaxed: each value stands for itself.
    const float known = rate.load(std::memory_order_relaxed);
    rate.store(known + (measured - known) * kWeight, std::memory_order_relaxed);
  }

  double BytesPerSecond(bool beyond_cache) const {
    return static_cast<double>(rates_[Index(beyond_cache)].load(std::memory_order_relaxed));
  }

 private:
  // Fewest bytes of a unit that is learned from.
  static constexpr uint64_t kSmallestSampleBytes = 64 << 10;
  // About the last 30 units count: one large operation is enough to learn a change.
  static constexpr float kWeight = 1.0F / 16;

  static size_t Index(bool beyond_cache) { return beyond_cache ? 1 : 0; }
  std::atomic<float>& Rate(bool beyond_cache) { return rates_[Index(beyond_cache)]; }

  // Rates until calibration has measured them.
  std::array<std::atomic<float>, 2> rates_{8e9F, 8e9F};
};

/// Measures all classes in the calling thread, in a few milliseconds (10 at most).
void Calibrate(Throughput& throughput);

}  // namespace harmonaize
