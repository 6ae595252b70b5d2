#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace harmonaize_torch {

/// Numbers the messages from this rank, or to it: by the other rank and the tag, from 0. Both ends
/// come to the same numbers, since messages of a tag arrive in their order. Thread: any.
class MessageCounts {
 public:
  /// Returns the number of the next message, which is then taken.
  uint64_t Take(int peer, int tag) {
    const std::lock_guard lock(mutex_);
    return counts_[{peer, tag}]++;
  }

  /// Returns the number of the next message.
  uint64_t Next(int peer, int tag) {
    const std::lock_guard lock(mutex_);
    return counts_[{peer, tag}];
  }

 private:
  std::mutex mutex_;  // guards the one below
  std::map<std::pair<int, int>, uint64_t> counts_;
};

}  // namespace harmonaize_torch
