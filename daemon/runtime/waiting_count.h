#pragma once

#include <cstdint>
#include <utility>

namespace harmonaize::daemon {

/// How much waits for a rank, of whatever kind: while there is any, the engine comes by to look for
/// late ones. Thread: engine.
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

/// One thing that waits, from its making until it is reset or destroyed. The count must outlive it.
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
