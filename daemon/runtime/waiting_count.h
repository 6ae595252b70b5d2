#pragma once

#include <cstdint>
#include <utility>

namespace harmonaize::daemon {

/// Counts what waits for ranks or for other hosts, of whatever kind. While anything waits, the
/// engine wakes regularly to look for late ranks. Thread: engine.
class WaitingCount {
 public:
  WaitingCount() = default;
  WaitingCount(const WaitingCount&) = delete;
  WaitingCount& operator=(const WaitingCount&) = delete;

  bool any() const { return count_ > 0; }

 private:
  friend class WaitingHold;
  int64_t count_ = 0;
};

/// Counts as one waiting thing, from its construction until it is reset or destroyed. Requires: the
/// count outlives it.
class WaitingHold {
 public:
  WaitingHold() = default;
  explicit WaitingHold(WaitingCount& count) : count_(&count) { ++count_->count_; }
  ~WaitingHold() { Reset(); }
  WaitingHold(WaitingHold&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
  WaitingHold& operator=(WaitingHold&& other) noexcept {
    if (this == &other) return *this;
    Reset();
    count_ = std::exchange(other.count_, nullptr);
    return *this;
  }

  void Reset() {
    if (count_ != nullptr) --std::exchange(count_, nullptr)->count_;
  }

 private:
  WaitingCount* count_ = nullptr;
};

}  // namespace harmonaize::daemon
