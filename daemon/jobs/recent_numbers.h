#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace harmonaize::daemon {

/// The last numbers that were added, to notice one that comes again. Thread: one.
class RecentNumbers {
 public:
  /// Most numbers that are remembered. A number comes by all ways within seconds, and a tenant
  /// begins no more events in that time (JobEvents). It bounds the memory of a job: 32 KiB.
  static constexpr size_t kMost = 4096;

  /// Returns false if the number is among them already.
  bool Add(uint64_t number) {
    if (std::find(numbers_.begin(), numbers_.end(), number) != numbers_.end()) return false;
    if (numbers_.size() < kMost) {
      numbers_.push_back(number);
    } else {
      numbers_[oldest_] = number;
      oldest_ = (oldest_ + 1) % kMost;
    }
    return true;
  }

 private:
  std::vector<uint64_t> numbers_;
  size_t oldest_ = 0;  ///< Once there are kMost: the one that goes next.
};

}  // namespace harmonaize::daemon
