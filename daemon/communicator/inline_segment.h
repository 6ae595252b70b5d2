#pragma once

#include <cstdint>
#include <memory>

#include "daemon/host/inline_limits.h"
#include "src/base/status.h"
#include "src/executor/host/machine.h"
#include "src/ipc/inline_segment.h"
#include "src/memory/shared_memory.h"

namespace harmonaize::daemon {

/// The daemon's end of a communicator's inline path: it makes the segment, steers by it, and reads
/// what the ranks have done. The ranks can write all of it, so nothing is decided by what it says.
class InlineSegment {
 public:
  static Result<std::unique_ptr<InlineSegment>> Create(int ranks, const InlineLimits& limits,
                                                       const Machine& machine);

  /// Lets operations go inline up to these sizes from now on.
  void Steer(const InlineLimits& limits);

  /// Sends everything to the daemon from now on: a rank has left, or the communicator was revoked.
  void Close();

  /// What the ranks say they have done, by the rank that says most.
  uint64_t operations() const;
  /// Of all ranks together.
  uint64_t bytes_moved() const;

  /// To hand to a rank; then NoteAttached. Kept until each rank has been given it once.
  int descriptor() const { return memory_.descriptor.get(); }
  void NoteAttached() {
    if (++attached_ == ranks_) memory_.descriptor.Reset();
  }
  size_t bytes() const { return memory_.mapping.size(); }

 private:
  InlineSegment(SharedMemory memory, int ranks) : memory_(std::move(memory)), ranks_(ranks) {}
  InlineHeader& header() const { return *reinterpret_cast<InlineHeader*>(memory_.mapping.data()); }
  const InlineRank& rank(int rank) const {
    return *reinterpret_cast<const InlineRank*>(memory_.mapping.data() +
                                                InlineLayout(ranks_).RankOffset(rank));
  }

  SharedMemory memory_;
  const int ranks_;
  int attached_ = 0;
};

}  // namespace harmonaize::daemon
