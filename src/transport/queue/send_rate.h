#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace harmonaize::transport {

/// Measures what a connection carries while it is used, by the bytes written to it. The kernel's
/// own estimate is the maximum that it has seen, which over a queue that empties at once is
/// gigabytes.
class SendRate {
 public:
  void OnWritten(size_t bytes, uint64_t now_ns) {
    bytes_ += bytes;
    const uint64_t elapsed_ns = now_ns - since_ns_;
    if (elapsed_ns < kSampleNs) return;
    const double sample = 1e9 * static_cast<double>(bytes_) / static_cast<double>(elapsed_ns);
    // Pauses make samples too small, so the rate is forgotten slowly.
    bytes_per_second_ = std::max(sample, bytes_per_second_ * (1 - kForgotten));
    bytes_ = 0;
    since_ns_ = now_ns;
  }

  double bytes_per_second() const { return bytes_per_second_; }

 private:
  /// Shortest sample.
  static constexpr uint64_t kSampleNs = 50'000'000;
  /// Fraction by which the rate falls with each lower sample, at most.
  static constexpr double kForgotten = 1.0 / 16;

  size_t bytes_ = 0;
  uint64_t since_ns_ = 0;
  double bytes_per_second_ = 0;
};

}  // namespace harmonaize::transport
