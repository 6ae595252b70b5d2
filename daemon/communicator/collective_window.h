#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace harmonaize::daemon {

struct MatchedOperation;

/// The collectives of a communicator that some rank has posted and that have not begun, by their
/// sequence numbers. They begin in order. Thread: engine.
class CollectiveWindow {
 public:
  /// The sequence number of the collective that begins next; the ones before have begun.
  uint64_t start() const { return start_; }
  /// The collective that begins next; nullptr if no rank has posted it.
  MatchedOperation* front() const { return window_.empty() ? nullptr : window_.front(); }
  /// Removes the collective that begins now. Requires: front() is not nullptr.
  void PopFront() {
    window_.pop_front();
    ++start_;
  }
  /// Returns the collective; nullptr if no rank has posted it, or if it has begun.
  MatchedOperation* Find(uint64_t sequence) const {
    const uint64_t place = sequence - start_;
    return sequence >= start_ && place < window_.size() ? window_[place] : nullptr;
  }
  /// Returns the place of a collective that has not begun.
  MatchedOperation*& At(uint64_t sequence) {
    while (sequence - start_ >= window_.size()) window_.push_back(nullptr);
    return window_[sequence - start_];
  }
  /// Removes the collectives from this sequence number on, and returns them in order. They have not
  /// begun, so the start stays.
  std::vector<MatchedOperation*> TakeFrom(uint64_t sequence) {
    const uint64_t first =
        std::min<uint64_t>(sequence - std::min(sequence, start_), window_.size());
    std::vector<MatchedOperation*> taken(window_.begin() + static_cast<ptrdiff_t>(first),
                                         window_.end());
    window_.resize(first);
    std::erase(taken, nullptr);
    return taken;
  }

  /// Calls `call` with the posted collectives in the first `most` places, in order. Returns the
  /// number of places behind these.
  template <typename Call>
  size_t ForFirst(size_t most, Call&& call) const {
    const size_t looked_at = std::min(most, window_.size());
    for (size_t i = 0; i < looked_at; ++i) {
      if (window_[i] != nullptr) call(*window_[i]);
    }
    return window_.size() - looked_at;
  }

 private:
  std::deque<MatchedOperation*> window_;
  uint64_t start_ = 0;
};

}  // namespace harmonaize::daemon
