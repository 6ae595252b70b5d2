#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_set>

namespace harmonaize::daemon {

/// The last numbers that were added, to notice one that comes again. Thread: one.
class RecentNumbers {
 public:
  /// Most numbers that are remembered. A job has some events a minute, and an event comes by all
  /// ways within seconds.
  static constexpr size_t kMost = 1024;

  /// Returns false if the number is among them already.
  bool Add(uint64_t number) {
    if (!known_.insert(number).second) return false;
    order_.push_back(number);
    if (order_.size() > kMost) {
      known_.erase(order_.front());
      order_.pop_front();
    }
    return true;
  }

 private:
  std::unordered_set<uint64_t> known_;
  std::deque<uint64_t> order_;
};

}  // namespace harmonaize::daemon
