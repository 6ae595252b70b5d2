#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// One thread's wait for descriptors and for calls that other threads hand it. A handler or a call
/// that throws is logged, and the others run all the same. Thread: one, except for Post and Wake.
class EventLoop {
 public:
  static Result<std::unique_ptr<EventLoop>> Create();

  /// Calls `on_ready` whenever `fd` is readable or has hung up, until Unwatch.
  Status Watch(int fd, std::function<void()> on_ready);
  /// Calls `on_ring` once for each write to the eventfd `fd`, or once for several writes. Nobody
  /// needs to read the eventfd.
  Status WatchBell(int fd, std::function<void()> on_ring);
  void Unwatch(int fd);
  /// Turns the interest in readable data on or off; it is on at first. While it is off, `on_ready`
  /// of Watch is called only when the other side has hung up.
  void SetReading(int fd, bool reading);

  /// Runs `call` on the loop's thread, soon. Calls run in the order posted. Thread: any.
  void Post(std::function<void()> call);
  /// Ends a Wait, the one under way or the next. Thread: any.
  void Wake();

  /// Handles what is ready; waits up to `timeout_ms` (-1: no limit) when nothing is.
  void Wait(int timeout_ms);
  /// Runs the calls that were posted. Begins no further call once `budget_ns` have passed; the
  /// others wait for the next RunPosted. Returns true if it ran a call.
  bool RunPosted(uint64_t budget_ns = UINT64_MAX);
  /// Returns whether a posted call has not run yet. Cheap.
  bool HasPosted() const { return has_posted_.load(std::memory_order_seq_cst); }

 private:
  struct Watched {
    uint32_t ticket = 0;  ///< Tells this watch from earlier ones of the same descriptor number.
    uint32_t events = 0;  ///< The event mask that epoll was given.
    // Shared, because a handler may unwatch itself.
    std::shared_ptr<std::function<void()>> on_ready;
  };

  EventLoop() = default;
  static uint64_t MarkOf(int fd, uint32_t ticket) {
    return uint64_t{ticket} << 32 | static_cast<uint32_t>(fd);
  }
  std::function<void()> TakePosted();
  Status Add(int fd, uint32_t events, std::function<void()> on_ready);

  FileDescriptor epoll_;
  FileDescriptor wake_;
  std::unordered_map<int, Watched> watches_;  // by descriptor
  uint32_t next_ticket_ = 0;
  std::mutex mutex_;
  std::deque<std::function<void()>> posted_;  // guarded by mutex_
  std::atomic<bool> has_posted_{false};
};

}  // namespace harmonaize::daemon
