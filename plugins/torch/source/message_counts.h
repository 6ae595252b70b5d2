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
  /// Takes the next message, and returns its number. `post` is called before another message can be
  /// taken: messages are to be posted in the order of their numbers.
  template <typename Post>
  uint64_t Take(int peer, int tag, Post post) {
    const std::lock_guard lock(mutex_);
    const uint64_t number = counts_[{peer, tag}]++;
    post();
    return number;
  }

  /// The same if the next message has this number. Returns whether it has.
  template <typename Post>
  bool TakeIf(int peer, int tag, uint64_t number, Post post) {
    const std::lock_guard lock(mutex_);
    uint64_t& next = counts_[{peer, tag}];
    if (next != number) return false;
    ++next;
    post();
    return true;
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
