#pragma once

#include <algorithm>
#include <cstdint>

namespace harmonaize::daemon {

/// For how long operations of a job were under way on this host. Time in which several were counts
/// once, if they end in the order in which they began, and more often at most. A plain value.
class ExchangeTime {
 public:
  /// Counts an operation that went on from `begin_ns` to `end_ns`, by one clock.
  void Add(uint64_t begin_ns, uint64_t end_ns) {
    const uint64_t from = std::max(begin_ns, counted_until_ns_);
    if (end_ns <= from) return;
    total_ns_ += end_ns - from;
    counted_until_ns_ = end_ns;
  }

  double seconds() const { return static_cast<double>(total_ns_) * 1e-9; }

 private:
  uint64_t total_ns_ = 0;
  uint64_t counted_until_ns_ = 0;
};

}  // namespace harmonaize::daemon
