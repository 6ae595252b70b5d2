#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace harmonaize::daemon {

/// Tells transfers that are not urgent when this host's links are the tenants': the engine notes
/// that operations between hosts are under way, and such transfers wait for a pause in these.
/// Thread: NoteBusy the engine's; the others any.
class IdleLink {
 public:
  /// Whether anybody wants to know. The engine asks first, since looking at a clock costs
  /// something.
  bool is_watched() const { return watchers_.load(std::memory_order_relaxed) > 0; }
  /// Notes that operations between hosts are under way now.
  void NoteBusy(uint64_t now_ns) { busy_ns_.store(now_ns, std::memory_order_relaxed); }

  /// Keeps the engine noting while it exists.
  class Watch {
   public:
    explicit Watch(IdleLink* link) : link_(link) {
      link_->watchers_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Watch() { link_->watchers_.fetch_sub(1, std::memory_order_relaxed); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    IdleLink* const link_;
  };

  /// Returns whether no operation has been under way for a moment.
  bool IsIdle(uint64_t now_ns) const {
    return now_ns > busy_ns_.load(std::memory_order_relaxed) + kPauseNs;
  }

  /// Pause, in nanoseconds, from which on the links count as idle: longer than the time between the
  /// operations of one exchange, shorter than a step's computation.
  static constexpr uint64_t kPauseNs = 2'000'000;
  /// Longest time, in nanoseconds, that a piece waits for a pause: a job that never pauses must not
  /// keep its own checkpoints from ever being safe.
  static constexpr uint64_t kLongestWaitNs = 200'000'000;

 private:
  // Relaxed throughout: the time is a hint, and orders nothing else.
  std::atomic<int> watchers_{0};
  std::atomic<uint64_t> busy_ns_{0};
};

}  // namespace harmonaize::daemon
