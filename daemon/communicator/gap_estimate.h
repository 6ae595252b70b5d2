#pragma once

#include <algorithm>
#include <cstdint>

namespace harmonaize::daemon {

/// Learns how long a communicator usually has no operation: the largest gap of late, which decays
/// with every operation. So it is near the largest of the last hundred gaps. Thread: engine.
class GapEstimate {
 public:
  /// Notes that an operation has come at `at_ns`. `between` is the number of operations since the
  /// last one that came another way, and that are taken to be evenly spread.
  void Note(uint64_t at_ns, uint64_t between = 0) {
    const uint64_t last = last_ns_;
    if (at_ns <= last) return;
    last_ns_ = at_ns;
    if (last == 0) return;
    const uint64_t gap = (at_ns - last) / (between + 1);
    gap_ns_ = std::max(gap_ns_ - gap_ns_ / kOperationsToForget, std::min(gap, kMostNanoseconds));
  }
  /// The largest gap of late; 0 before the second operation.
  uint64_t gap_ns() const { return gap_ns_; }
  /// When the last operation came; 0: none has.
  uint64_t last_ns() const { return last_ns_; }

 private:
  /// Operations after which about a third of a gap is left: what happens every hundredth step, as
  /// saving a checkpoint, is remembered for as long.
  static constexpr uint64_t kOperationsToForget = 128;
  /// The longest gap that is learned, in nanoseconds: a job that stood still for a night must not
  /// go unwatched for three.
  static constexpr uint64_t kMostNanoseconds = 600'000'000'000;

  uint64_t last_ns_ = 0;
  uint64_t gap_ns_ = 0;
};

}  // namespace harmonaize::daemon
