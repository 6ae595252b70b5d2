#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/client/operation/copy_batch.h"
#include "src/client/session/session.h"

namespace harmonaize {

/// The private data that is still to be copied for one ordered queue of operations: that of a host
/// stream, or a communicator's own. Batches of a position are copied side by side, and only when
/// everything of the positions before is copied out, because they may use the same buffers. Whoever
/// asks how far the queue has come copies a part, threads that wait copy all, and the Copier copies
/// meanwhile. Thread: any.
class CopyQueue {
 public:
  CopyQueue(std::shared_ptr<Session> session, uint32_t stream);
  CopyQueue(const CopyQueue&) = delete;
  CopyQueue& operator=(const CopyQueue&) = delete;

  /// Appends a batch. Requires: its position is not before that of the last one, and is not posted
  /// yet.
  void Add(std::unique_ptr<CopyBatch> batch);

  /// Copies some of what can be copied now. Returns whether there was something. Never waits for
  /// other ranks, but for a thread that copies.
  bool Step();
  /// Returns whether Step would find something to do.
  bool CanStep();
  /// Returns whether everything up to `position` is copied out. (Whether its operations without
  /// private data are done tells the queue's slot.)
  bool CopiedUpTo(uint64_t position) const {
    return first_.load(std::memory_order_acquire) > position;
  }
  /// Copies all that can be copied now up to `position`. Returns whether everything is copied out.
  bool CopyUpTo(uint64_t position);
  /// Returns whether everything up to `position` is done and copied out.
  bool DoneUpTo(uint64_t position) const {
    return CopiedUpTo(position) && slot().completed.load(std::memory_order_acquire) >= position;
  }
  /// Returns whether everything up to `position` is done and copied out. Copies some of it.
  bool Reached(uint64_t position);
  /// Copies and waits until everything up to `position` is done and copied out. `on_tick`: see
  /// Session::WaitForPosition.
  Status Await(uint64_t position, const std::function<Status()>& on_tick);

  /// Returns whether results that are still to come lie within these bytes.
  bool WritesTo(const void* address, uint64_t bytes);
  /// Returns the bytes of staged buffers that wait for their operations.
  uint64_t staged_bytes() const { return staged_bytes_.load(std::memory_order_relaxed); }
  /// Returns whether some batch goes through windows, so that another thread may wait for copies.
  bool has_windows() const { return windows_.load(std::memory_order_acquire) > 0; }

  /// Removes the communicator's batches (nullptr: all batches). When it returns, nobody touches
  /// their buffers any more. The caller keeps the batches while the daemon may use their shared
  /// memory.
  std::vector<std::unique_ptr<CopyBatch>> Drop(const Communicator* communicator);

  /// Returns whether a thread copies for the queue until it has what it waits for. The Copier
  /// leaves such a queue alone.
  bool driven() const { return drivers_.load(std::memory_order_relaxed) > 0; }

  /// Set while the Copier has the queue in its list.
  std::atomic<bool>& attended() { return attended_; }

  Session& session() { return *session_; }

 private:
  friend class CopyWait;
  StreamSlot& slot() const { return session_->stream_slot(stream_); }
  // These require that mutex_ is held.
  size_t SizeOfFirst() const;
  void Count(const CopyBatch& batch, int change);
  void NoteFirst();

  const std::shared_ptr<Session> session_;
  const uint32_t stream_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<CopyBatch>> batches_;  // in the order of their positions
  std::atomic<uint64_t> first_{~uint64_t{0}};  // position of the first batch; changed under mutex_
  std::atomic<int> windows_{0};                // batches that have some
  std::atomic<uint64_t> staged_bytes_{0};
  std::atomic<int> drivers_{0};
  std::atomic<bool> attended_{false};
};

/// How far a thread waits for copies of one queue.
struct CopyTarget {
  CopyQueue* queue;
  uint64_t position;
};

/// Copies and waits until everything up to the targets' positions is copied out. The queues belong
/// to one session. `on_tick`: see Session::WaitForPosition.
Status AwaitCopies(std::span<const CopyTarget> targets, const std::function<Status()>& on_tick);

}  // namespace harmonaize
