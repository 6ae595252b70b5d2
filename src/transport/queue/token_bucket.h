#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace harmonaize::transport {

/// Counts the bytes that may go at a rate: they come with time, up to a burst, and go with what is
/// sent. More may be sent than there is; the bucket then owes it.
class TokenBucket {
 public:
  /// The bucket begins empty.
  TokenBucket(double bytes_per_second, uint64_t now_ns)
      : bytes_per_ns_(bytes_per_second * 1e-9), refilled_ns_(now_ns) {}

  void SetRate(double bytes_per_second, uint64_t now_ns) {
    Refill(now_ns);
    bytes_per_ns_ = bytes_per_second * 1e-9;
  }
  double bytes_per_second() const { return bytes_per_ns_ * 1e9; }

  /// Returns the bytes that may go now; below 0: owed.
  double At(uint64_t now_ns) {
    Refill(now_ns);
    return tokens_;
  }
  void Charge(size_t bytes) { tokens_ -= static_cast<double>(bytes); }
  /// Forgives what is owed beyond this many bytes.
  void Forgive(double most_owed) { tokens_ = std::max(tokens_, -most_owed); }
  /// Returns the nanoseconds, from the last call with a time, until something may go; at least 1.
  double WaitNs() const { return std::max(1 - tokens_ / bytes_per_ns_, 1.0); }

  /// Least bytes that may go at once after a pause: a frame.
  static constexpr double kLeastBurst = 64 << 10;

 private:
  /// Nanoseconds whose bytes may go at once after a pause, because the thread may be that late
  /// while others are busy.
  static constexpr double kBurstNs = 2e6;

  void Refill(uint64_t now_ns) {
    tokens_ += static_cast<double>(now_ns - refilled_ns_) * bytes_per_ns_;
    tokens_ = std::min(tokens_, std::max(kLeastBurst, kBurstNs * bytes_per_ns_));
    refilled_ns_ = now_ns;
  }

  double bytes_per_ns_;
  double tokens_ = 0;
  uint64_t refilled_ns_;
};

}  // namespace harmonaize::transport
