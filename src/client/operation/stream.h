#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "src/base/status.h"
#include "src/client/session/session.h"

namespace harmonaize {

/// A host stream: an ordered queue of operations that the caller does not wait for. Handles are
/// given out as cudaStream_t, so any pointer may come in: From tells ours from others. Thread safe.
class HostStream {
 public:
  static Result<HostStream*> Create();
  /// The stream behind a handle that Create gave out and Destroy has not seen, else nullptr.
  static HostStream* From(const void* handle);
  /// Waits for what is queued, then frees the stream.
  static Status Destroy(HostStream* stream);

  /// kInProgress while something is queued; else ok, or the first failure since the last time that
  /// Query or Synchronize told of one.
  Status Query();
  Status Synchronize();
  /// Waits for what is queued and leaves its failures to be told later. `on_tick` as in
  /// Session::WaitForPosition.
  Status Drain(const std::function<Status()>& on_tick);

  /// Whether everything that was queued is done.
  bool Idle();

  /// The next position; the caller submits operations for it before anybody else takes one, so hold
  /// `order` from here to the submission.
  uint64_t NextPosition() { return last_position_.fetch_add(1, std::memory_order_relaxed) + 1; }
  std::mutex& order() { return order_; }

  /// Whether fewer positions are queued than the daemon should hold for one stream.
  bool HasRoom();
  /// Waits for room. Not under `order`: what is queued may wait for who would then wait for that.
  Status AwaitRoom(const std::function<Status()>& on_tick);

  uint32_t index() const { return index_; }
  Session& session() { return *session_; }

 private:
  HostStream(std::shared_ptr<Session> session, uint32_t index, uint64_t position)
      : session_(std::move(session)),
        index_(index),
        last_position_(position),
        failures_told_(session_->stream_slot(index).error_count.load(std::memory_order_acquire)) {}
  Status TakeFailure();

  std::shared_ptr<Session> session_;
  uint32_t index_;
  std::mutex order_;
  std::atomic<uint64_t> last_position_;  // grows under order_
  std::mutex failure_mutex_;             // guards the one below
  uint32_t failures_told_;
};

}  // namespace harmonaize
