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

/// One thread's wait for descriptors and for calls that other threads hand it. All methods belong
/// to that thread, but for Post and Wake, which any may call. A handler or a call that throws is
/// logged, and the others run all the same.
class EventLoop {
 public:
  static Result<std::unique_ptr<EventLoop>> Create();

  /// Calls `on_ready` whenever `fd` is readable or has hung up, until Unwatch.
  Status Watch(int fd, std::function<void()> on_ready);
  /// The same for an eventfd: calls once for each time that it was written to, or for several, and
  /// nobody needs to read it.
  Status WatchBell(int fd, std::function<void()> on_ring);
  void Unwatch(int fd);
  /// Whether what can be read there is of interest (it is at first). If not, `on_ready` of Watch is
  /// called when the other side has hung up, and for nothing else.
  void SetReading(int fd, bool reading);

  /// Runs `call` on the loop's thread, soon. Calls run in the order posted.
  void Post(std::function<void()> call);
  /// Ends a Wait, the one under way or the next.
  void Wake();

  /// Handles what is ready; waits up to `timeout_ms` (-1: no limit) when nothing is.
  void Wait(int timeout_ms);
  /// Runs what was posted, and begins no further call once `budget_ns` have passed: the rest is for
  /// the next time. True when there was something.
  bool RunPosted(uint64_t budget_ns = UINT64_MAX);
  /// Whether something was posted that has not run. Cheap.
  bool HasPosted() const { return has_posted_.load(std::memory_order_seq_cst); }

 private:
  struct Watched {
    uint32_t ticket = 0;  ///< Tells it from others that had the same descriptor's number.
    uint32_t events = 0;  ///< As epoll has them.
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
