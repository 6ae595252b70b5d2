#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/host/inline_limits.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"
#include "src/executor/host/machine.h"
#include "src/ipc/inline_segment.h"
#include "src/ipc/inline_slot.h"
#include "src/ipc/inline_wait.h"

namespace harmonaize::daemon {

/// The daemon's end of a communicator's inline path: it makes the ranks' segment, steers the ranks
/// by their slots, and reads there what they have done. The ranks can write all of it, so nothing
/// is decided by what it says. Thread: engine.
class InlineSegment {
 public:
  static Result<std::unique_ptr<InlineSegment>> Create(int ranks, const InlineLimits& limits,
                                                       const Machine& machine);

  /// Tells a rank in its slot what goes inline. Requires: the slot stays where it is until Detach,
  /// and the rank has not been handed the segment.
  void Attach(int rank, InlineSlot* slot);
  /// Forgets the slot of a rank that has left.
  void Detach(int rank);

  /// Tells all ranks, and those that come later, that something else goes inline from now on.
  void SetLimits(const InlineLimits& limits);
  /// Sends everything to the daemon from now on: a rank has left, or the communicator was revoked.
  void Close();
  /// Tells the other ranks that a rank has given a region up that it had offered to them.
  void TellGone(int rank, uint32_t region);

  /// Returns what the ranks say of operations in which they have waited for long, by rank.
  std::vector<std::pair<int, ToldInlineWait>> Waits() const;

  /// Number of operations that the ranks say they have done, by the rank that says most.
  uint64_t operations() const;
  /// Number of bytes that all ranks that have not left say they have moved.
  uint64_t bytes_moved() const;
  /// The same with what ranks had said when they left. No sum overflows.
  uint64_t claimed_operations() const;
  uint64_t claimed_bytes() const;

  /// The segment's descriptor, to hand to a rank; NoteHanded follows. It is kept until each rank
  /// has been given it once.
  int descriptor() const { return descriptor_.get(); }
  void NoteHanded() {
    if (++handed_ == slots_.size()) descriptor_.Reset();
  }
  size_t bytes() const { return InlineLayout(static_cast<int>(slots_.size())).bytes(); }

 private:
  InlineSegment(FileDescriptor descriptor, int ranks, const InlineLimits& limits,
                const Machine& machine);

  void Tell(InlineSlot* slot) const;

  FileDescriptor descriptor_;
  InlineLimits limits_;
  const uint64_t last_level_bytes_;
  const bool crowded_;
  bool open_ = true;  ///< Close was not called.
  size_t handed_ = 0;
  uint64_t left_operations_ = 0;  ///< Of the ranks that have left, by the one that said most.
  uint64_t left_bytes_ = 0;
  std::vector<InlineSlot*>
      slots_;  ///< By rank; nullptr for one that has not attached, or has left.
};

}  // namespace harmonaize::daemon
