#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// Proves that a schedule is right by executing it symbolically, without data and without any
/// assumption on the order of steps but their dependencies. Ok means:
///
/// - every block of every output that the collective defines ends up holding each contribution that
///   it should exactly once, and nothing else;
/// - no step reads a block before its content is there, and no two steps that the dependencies
///   and messages leave unordered touch the same memory, unless both only read it;
/// - all this with any subset of the ranks in place when schedule.in_place is set;
/// - every message has its two ends, in matching order, of the same piece;
/// - the programs cannot deadlock, even if a send is done only once its receive has started and
///   each direction (of each path) between two hosts carries its messages strictly in order;
/// - every block is in range and on the host that names it, no input is written, and every step has
///   the sources and destinations of its kind.
///
/// Otherwise it returns an internal error (a schedule is ours, so is the bug) that names the host,
/// the step and the block. Nothing is promised of memory that the collective leaves undefined. The
/// time is close to linear in the number of blocks that the steps name, as long as a step names its
/// dependencies in its `after`, and they are not many messages away.
Status Check(const Schedule& schedule);

/// Returns whether the result is bit-identical to that of any other schedule for which this is
/// true: every reduction is a left fold in rank order, ((r0 + r1) + r2) + ..., from rank 0 on. True
/// for collectives that reduce nothing, false for a schedule that Check refuses.
///
/// Only the order of operations counts here: an executor that rounds partial results when it stores
/// or sends them (16- and 8-bit types) has to keep them in the accumulator's type.
bool ReducesInRankOrder(const Schedule& schedule);

/// Blocks that one host's program moves. The block is 1/pieces of `count` elements.
struct HostTraffic {
  int host = 0;
  uint64_t read = 0;      ///< Read from the host's memory, to send included.
  uint64_t written = 0;   ///< Written to the host's memory, from receives included.
  uint64_t sent = 0;      ///< Sent to other hosts.
  uint64_t received = 0;  ///< Received from other hosts.

  friend bool operator==(const HostTraffic&, const HostTraffic&) = default;
};
struct Traffic {
  std::vector<HostTraffic> hosts;  ///< In the order of schedule.programs.
};

/// Counts the blocks that the programs move, for estimates. A block is counted as often as steps
/// name it, including a copy of a block onto itself in place.
Traffic CountTraffic(const Schedule& schedule);

}  // namespace harmonaize
