#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "src/base/status.h"
#include "src/client/session/session.h"

namespace harmonaize {

class CopyQueue;
class Notices;

/// A host stream: an ordered queue of operations that the caller does not wait for. Handles are
/// given out as cudaStream_t, so any pointer may come in: From tells our streams from others.
/// Thread: any.
class HostStream {
 public:
  static Result<HostStream*> Create();
  /// Returns the stream of a handle that Create gave out and Destroy has not freed, else nullptr.
  static HostStream* From(const void* handle);
  /// Waits for the queued operations, then frees the stream.
  static Status Destroy(HostStream* stream);

  /// Returns kInProgress while something is queued; else ok, or the first failure that Query or
  /// Synchronize has not reported yet. While something is queued both pass on notices of the
  /// communicators that use the stream.
  Status Query();
  Status Synchronize();
  /// Waits for the queued operations and leaves their failures to be reported later. `on_tick`: see
  /// Session::WaitForPosition.
  Status Drain(const std::function<Status()>& on_tick);

  /// Returns whether everything that was queued is done. Copies out what is done.
  bool Idle();

  /// Waits until everything that was queued is done, for no longer than operations take whose ranks
  /// are all there. Returns whether it is. Does not wait again before the stream was idle once.
  bool IdleSoon();

  /// The private data of queued operations.
  const std::shared_ptr<CopyQueue>& copies() const { return copies_; }

  /// Returns the next position. Requires: the caller holds `order` until it has submitted
  /// operations for this position, so that no other thread takes a later one before.
  uint64_t NextPosition() { return last_position_.fetch_add(1, std::memory_order_relaxed) + 1; }
  std::mutex& order() { return order_; }

  /// Returns whether fewer positions are queued than the daemon should hold for one stream.
  bool HasRoom();
  /// Waits for room. Requires: `order` is not held, because queued operations may wait for a thread
  /// that would then wait for `order`.
  Status AwaitRoom(const std::function<Status()>& on_tick);

  /// Adds a communicator that uses the stream: its notices are passed on while a thread waits in
  /// Synchronize or asks by Query, for as long as the communicator has them.
  void AddNotices(const std::shared_ptr<Notices>& notices);

  uint32_t index() const { return index_; }
  Session& session() { return *session_; }

 private:
  HostStream(std::shared_ptr<Session> session, uint32_t index, uint64_t position);
  Status TakeFailure();
  Status CheckUsable();
  void PassOnNotices();

  const std::shared_ptr<Session> session_;
  const uint32_t index_;
  const std::shared_ptr<CopyQueue> copies_;
  std::mutex order_;
  std::atomic<uint64_t> last_position_;      // grows under order_
  std::atomic<bool> was_waited_for_{false};  // in vain, since it was idle last
  std::mutex failure_mutex_;                 // guards the one below
  uint32_t failures_told_;
  std::mutex notices_mutex_;  // guards the one below
  std::vector<std::weak_ptr<Notices>> notices_;
};

}  // namespace harmonaize
