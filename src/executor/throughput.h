#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace harmonaize {

/// How fast one thread moves bytes, read and written, learned while running. Kept apart for mapped
/// and private memory, and for operations that fit the last-level cache and larger ones.
///
/// Thread safe. Two threads that learn at once may lose one of two samples of thousands.
class Throughput {
 public:
  /// Replaces what is known of a class, in bytes per second of one thread.
  void Set(bool private_memory, bool beyond_cache, double bytes_per_second) {
    Rate(private_memory, beyond_cache)
        .store(static_cast<float>(bytes_per_second), std::memory_order_relaxed);
  }

  /// One unit's measure. Too short ones measure the clock and the cold start, and are left out.
  void Learn(bool private_memory, bool beyond_cache, uint64_t bytes, uint64_t nanoseconds) {
    if (bytes < kSmallestSampleBytes || nanoseconds == 0) return;
    std::atomic<float>& rate = Rate(private_memory, beyond_cache);
    const float measured = static_cast<float>(bytes) * 1e9F / static_cast<float>(nanoseconds);
    // Relaxed: each value stands for itself.
    const float known = rate.load(std::memory_order_relaxed);
    rate.store(known + (measured - known) * kWeight, std::memory_order_relaxed);
  }

  double BytesPerSecond(bool private_memory, bool beyond_cache) const {
    return static_cast<double>(
        rates_[Index(private_memory, beyond_cache)].load(std::memory_order_relaxed));
  }

 private:
  static constexpr uint64_t kSmallestSampleBytes = 64 << 10;
  // About the last 30 units count: a large operation is enough to learn a change.
  static constexpr float kWeight = 1.0F / 16;

  static size_t Index(bool private_memory, bool beyond_cache) {
    return (private_memory ? 2u : 0u) + (beyond_cache ? 1u : 0u);
  }
  std::atomic<float>& Rate(bool private_memory, bool beyond_cache) {
    return rates_[Index(private_memory, beyond_cache)];
  }

  // A guess for the classes that calibration cannot measure.
  std::array<std::atomic<float>, 4> rates_{8e9F, 8e9F, 4e9F, 4e9F};
};

/// Measures all classes in the calling thread, in a few milliseconds (20 at most).
void Calibrate(Throughput& throughput);

}  // namespace harmonaize
