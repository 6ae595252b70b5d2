#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/schedule.h"

namespace harmonaize {

/// A step of a program that sends and receives, as it is carried out: a message, work on this
/// host's memory, or both. Blocks are those of the program.
struct NetworkStep {
  StepKind kind = StepKind::kCopy;
  std::vector<Block> sources = {};
  std::vector<Block> destinations = {};
  int peer_host = -1;
  int path = -1;
  uint32_t message = 0;  ///< Its number among those of its direction and path.
  int waits_for = 0;     ///< How many steps have to be done before.
  std::vector<int> successors = {};
  /// The work, as a program of one step over buffers of their own: source i is input 0 of rank i,
  /// destination i output 0 of rank i. What was received comes before the sources; a send writes to
  /// a buffer to send from.
  HostProgram work = {};
};

/// A host's program, made ready to be carried out again and again, with any buffers. Immutable.
class NetworkProgram {
 public:
  /// `program` is one of a schedule that has passed Check, with so many pieces.
  NetworkProgram(const HostProgram& program, int pieces);

  const std::vector<NetworkStep>& steps() const { return steps_; }
  /// The steps that wait for none.
  const std::vector<int>& first() const { return first_; }
  int pieces() const { return pieces_; }
  int scratch_blocks() const { return scratch_blocks_; }

  /// The blocks of outputs that are written, each once.
  const std::vector<Block>& outputs() const { return outputs_; }

 private:
  void NumberMessages();
  void CollectOutputs();

  std::vector<NetworkStep> steps_;
  std::vector<int> first_;
  int pieces_ = 1;
  int scratch_blocks_ = 0;
  std::vector<Block> outputs_;
};

}  // namespace harmonaize
