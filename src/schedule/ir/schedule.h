#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/collective.h"

namespace harmonaize {

// The intermediate representation of collective algorithms. A Schedule lists, for every host, the
// steps that carry out one collective. Generators make schedules (one_host.h), Check proves them
// (check.h), and one executor runs all of them. docs/schedules.md tells how the parts fit.
//
// Everything here is a plain value: copyable, without locks. Thread: any, while none writes.

/// Kinds of steps. "Elementwise" means that element i of a destination depends on element i of the
/// sources only, so an executor may cut the blocks into slices and run the program slice by slice.
/// In every kind, all sources (of a slice) are read before any destination (of it) is written, so a
/// block may be source and destination of one step.
enum class StepKind : uint8_t {
  /// n sources -> m destinations. Every destination gets the left fold of the sources, with the
  /// collective's operator, in the order listed.
  kReduce = 0,
  /// 1 source -> m destinations.
  kCopy,
  /// k sources -> k destinations, pairwise: an in-place all-to-all.
  kExchange,
  /// 1 source -> the peer host. Done when the source may be overwritten.
  kSend,
  /// The peer host -> m destinations.
  kReceive,
  /// The peer host and n sources -> m destinations. Every destination gets the left fold of the
  /// received data and the sources, in this order. The sources are not read before the message is
  /// on its way, so dependencies of the message's send hold for these reads too.
  kReceiveReduce,
};
inline constexpr int kStepKindCount = 6;

/// The memory in which a block lies.
enum class Space : uint8_t {
  kInput = 0,  ///< A rank's send buffer. Never written.
  kOutput,     ///< A rank's receive buffer. Holds nothing until a step writes it, even in place.
  kScratch,    ///< Memory of the host whose program names it. Holds nothing until a step writes it.
};

/// One block: the unit in which steps name memory.
///
/// A rank's buffer holds BlocksOf(collective) units of `count` elements; each unit is divided into
/// `pieces` blocks. Block i of a buffer is piece (i mod pieces) of unit (i div pieces), and
/// ExtentOf gives its place. Scratch blocks are numbered in the same way: scratch block i holds
/// data of piece (i mod pieces) and is as long as that piece.
struct Block {
  Space space = Space::kInput;
  int rank = -1;  ///< Rank in the communicator; -1 (and not looked at) for scratch.
  int index = 0;

  friend bool operator==(const Block&, const Block&) = default;
};

inline Block InputBlock(int rank, int index) {
  return {Space::kInput, rank, index};
}
inline Block OutputBlock(int rank, int index) {
  return {Space::kOutput, rank, index};
}
inline Block ScratchBlock(int index) {
  return {Space::kScratch, -1, index};
}

/// One step of one host's program. All its blocks, and the message that it sends or receives, are
/// data of one piece and therefore of one length.
struct Step {
  StepKind kind = StepKind::kCopy;
  std::vector<Block> sources = {};
  std::vector<Block> destinations = {};
  /// The host at the other end of kSend, kReceive and kReceiveReduce; -1 in other kinds. The i-th
  /// send from host a to host b by a path, in the order of a's program, is received by the i-th
  /// receive from a by this path in the order of b's program.
  int peer_host = -1;
  /// Indices of earlier steps of the same program that must be done before this one starts. Nothing
  /// else orders the steps of a program: their place in the list does not.
  std::vector<int> after = {};
  /// Which of the paths between the two hosts the message takes, in its direction: a number to
  /// which the fabric gives a meaning. -1: any; also in steps that are no message.
  int path = -1;
};

/// The steps of one host.
struct HostProgram {
  int host = 0;
  int scratch_blocks = 0;
  std::vector<Step> steps = {};
};

/// The steps that carry out one collective on all hosts of a communicator.
struct Schedule {
  std::string name;  ///< The algorithm, for people: "one-host", "ring".
  /// A point-to-point operation is a schedule of kSend with 2 ranks: rank 0 is the sender and has
  /// only an input, rank 1 is the receiver and has only an output. kReceive does not occur.
  Collective collective = Collective::kAllReduce;
  int ranks = 0;
  int root = -1;                  ///< -1 where the collective has none.
  std::vector<int> host_of_rank;  ///< `ranks` hosts. A host is a number with a program below.
  int pieces = 1;                 ///< Blocks per unit of `count` elements.
  /// Ranks may use their buffers in place (see InPlaceInput): all of them, some, or none. A
  /// schedule without this mark may be run only when no rank does.
  bool in_place = false;
  std::vector<HostProgram> programs;  ///< One per host.
};

/// Returns the number of blocks in a rank's input or output; 0 where the rank does not use the
/// buffer. Requires: `rank` is in range.
int InputBlocks(const Schedule& schedule, int rank);
int OutputBlocks(const Schedule& schedule, int rank);

/// Returns the input block that shares memory with `output` when the output's rank is in place, as
/// NCCL defines it; none where in place does not join them. With output(r)[u] for unit u of rank r:
///
///   all-reduce, reduce, broadcast, all-to-all   output(r) == input(r)
///   all-gather                                  output(r)[r] == input(r)
///   reduce-scatter                              output(r) == input(r)[r]
///   gather                                      output(root)[root] == input(root)
///   scatter                                     output(root) == input(root)[root]
std::optional<Block> InPlaceInput(const Schedule& schedule, const Block& output);

/// Place and length of a block in its buffer, in elements.
struct BlockExtent {
  uint64_t offset = 0;
  uint64_t length = 0;

  friend bool operator==(const BlockExtent&, const BlockExtent&) = default;
};

/// Returns the place of block `index` in an input or output buffer, with units of `count` elements.
/// Pieces are equally long, except that the last ones may be shorter or empty. Requires: `pieces` >
/// 0, `index` >= 0.
BlockExtent ExtentOf(uint64_t count, int pieces, int index);

/// Returns the length of the longest block, in elements: the most that a scratch block needs.
inline uint64_t LongestBlock(uint64_t count, int pieces) {
  return ExtentOf(count, pieces, 0).length;
}

/// Returns "reduce", "receive-reduce", ...
const char* StepKindName(StepKind kind);

/// Returns "input 2[5]" (block 5 of rank 2's input), "output 0[1]" or "scratch[3]".
std::string Describe(const Block& block);

/// Returns the step on one line: "reduce input 0[0] input 1[0] -> output 0[0] after 3 4".
std::string Describe(const Step& step);

/// Returns the schedule for people: a line about it, one for every host, and one for every step.
std::string Describe(const Schedule& schedule);

}  // namespace harmonaize
