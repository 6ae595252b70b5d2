#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "src/base/status.h"
#include "src/client/operation/operation.h"
#include "src/client/operation/pair_copies.h"
#include "src/client/operation/staged_results.h"
#include "src/client/operation/window_copy.h"
#include "src/client/session/session.h"

namespace harmonaize {

/// The private data of one launch's operations of one communicator on one queue, all at one
/// position: what is staged as a whole, and what is copied through windows. Thread: one at a time.
class CopyBatch {
 public:
  /// Requires: the communicator, and the operations' buffers, stay until everything is copied, or
  /// the batch is gone. `stream`: the queue's index in the session.
  CopyBatch(Communicator* communicator, uint32_t stream);
  CopyBatch(const CopyBatch&) = delete;
  CopyBatch& operator=(const CopyBatch&) = delete;

  // Filling the batch, before it is posted.

  /// Takes over a buffer from the StagingPool.
  void AddBuffer(std::byte* buffer, uint64_t bytes) {
    staged_.AddBuffer(buffer, bytes);
    staged_bytes_ += bytes;
  }
  void AddResult(void* to, const std::byte* from, uint64_t bytes) {
    staged_.AddResult(to, from, bytes);
  }
  /// Adds an operation that goes through windows; in the order of their sequences.
  void AddWindow(const Operation& operation, const OperationDescriptor& descriptor);
  void SetPosition(uint64_t position) { position_ = position; }

  // Copying.

  /// Copies some of what can be copied now. Returns whether there was something. Never waits for
  /// others.
  bool Step();
  /// Returns whether Step would find something to do.
  bool CanStep() const;
  /// Returns whether everything is copied out.
  bool copied() const { return !has_windows() && staged_.empty(); }
  /// Returns what to wait for when Step has found nothing to do; nothing if it is more than one
  /// thing, of which only news tell. Requires: not everything is copied.
  std::optional<Session::AwaitedSlices> Awaited() const;

  Communicator* communicator() const { return communicator_; }
  uint64_t position() const { return position_; }
  bool has_windows() const { return !collectives_.empty() || has_pairs(); }
  /// Returns the bytes of all buffers that it was given, also of those that it has given back.
  uint64_t staged_bytes() const { return staged_bytes_; }
  /// Returns whether results that are still to come lie within these bytes.
  bool WritesTo(const void* address, uint64_t bytes);

 private:
  bool PositionReached() const;
  bool Succeeded() const;
  bool has_pairs() const { return !sends_.empty() || !receives_.empty(); }
  bool StepCollective();
  bool StepPairs();

  Communicator* const communicator_;
  StreamSlot* const queue_;
  const bool own_queue_;            // the communicator's, not that of a host stream
  const uint32_t failures_before_;  // of the queue
  uint64_t position_ = 0;
  StagedResults staged_;
  uint64_t staged_bytes_ = 0;
  // What goes through windows. The daemon begins collectives in their order, so the first one is
  // under way.
  std::deque<WindowCopy> collectives_;
  PairCopies sends_;
  PairCopies receives_;
};

}  // namespace harmonaize
