#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// How a step is carried out where messages have a wire format of their own. Scratch blocks are
/// numbered anew.
struct EncodedStep {
  std::vector<Block> sources;       ///< As in Step; of a send, the block that is in the format.
  std::vector<Block> destinations;  ///< What its work writes: none where it has no work.
  /// The scratch block in which a received message stays; none: it may be dropped after the work.
  std::optional<Block> landing;
  /// For each input and output of the work, 1 if it is in the format, else 0. A message comes
  /// before the sources.
  std::vector<uint8_t> encoded_inputs;
  std::vector<uint8_t> encoded_outputs;
  /// Whether outputs get the rounded result. What is received is rounded already, and results that
  /// stay on this host in scratch memory are not to be.
  bool rounds = false;
  /// The work, numbered as NetworkStep::work.
  HostProgram work;
};

/// A host's program of a reducing collective, prepared for messages in a wire format, of any kind.
/// Immutable.
///
/// What is sent is in the format from the moment it is made, and so is what is received: such
/// results have scratch blocks of their own, from which messages are sent, in which they arrive,
/// and from which later steps read. So nothing is encoded or decoded but by the work that makes or
/// uses it anyway. A result that is sent and stands in outputs is in both.
///
/// Thus every host has the same bits of a result that it sends, receives, or has in an output: all
/// of them are what the format stands for. Hosts that make the same result each for itself, as in
/// recursive doubling, make it from the same rounded values, and round it in the same way.
class EncodedProgram {
 public:
  /// Returns the program; nullptr if it sends inputs or exchanges blocks on this host, which
  /// reducing collectives do not. Requires: the program is one of a schedule that has passed Check.
  static std::unique_ptr<const EncodedProgram> Make(const HostProgram& program);

  const std::vector<EncodedStep>& steps() const { return steps_; }
  int scratch_blocks() const { return scratch_blocks_; }
  /// Returns about how much memory it takes, in bytes.
  size_t memory_bytes() const;

 private:
  EncodedProgram() = default;

  std::vector<EncodedStep> steps_;
  int scratch_blocks_ = 0;
};

}  // namespace harmonaize
