#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/executor/network/encoded_program.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// A step of a program that sends and receives, as it is carried out: a message, work on this
/// host's memory, or both.
struct NetworkStep : Step {
  uint32_t message = 0;  ///< Number of its message among those of its direction and path.
  std::vector<int> successors = {};
  /// The work, as a program of one step over buffers of its own: source i is input 0 of rank i,
  /// destination i output 0 of rank i. A received message comes before the sources. A send writes
  /// to a buffer that is then sent.
  HostProgram work = {};
};

/// Returns whether a step begins with a message from another host.
constexpr bool Receives(StepKind kind) {
  return kind == StepKind::kReceive || kind == StepKind::kReceiveReduce;
}

/// A host's program, prepared so that it can be run again and again with any buffers. Immutable.
class NetworkProgram {
 public:
  /// Whether a program can also be run with messages in a wire format. Only those of reducing
  /// collectives can, and they take twice the memory.
  enum class Messages { kPlain, kPlainOrEncoded };

  /// Requires: `program` is one of a schedule that has passed Check, with so many pieces.
  NetworkProgram(const HostProgram& program, int pieces, Messages messages = Messages::kPlain);

  const std::vector<NetworkStep>& steps() const { return steps_; }
  /// Returns the steps that wait for no other.
  const std::vector<int>& first() const { return first_; }
  /// Returns the steps (kReceiveReduce) whose message may be received before the steps that they
  /// wait for are done: the work that follows reads the message together with other data.
  const std::vector<int>& early() const { return early_; }
  /// Returns the number of steps that send.
  uint64_t sends() const { return sends_; }
  int pieces() const { return pieces_; }
  int scratch_blocks() const { return scratch_blocks_; }
  /// Returns the program for messages in a wire format; nullptr if it cannot be run so.
  const EncodedProgram* encoded() const { return encoded_.get(); }

  /// Returns about how much memory it takes, in bytes.
  size_t memory_bytes() const { return memory_bytes_; }

  /// Returns the output blocks that the program writes, each once.
  const std::vector<Block>& outputs() const { return outputs_; }

 private:
  void NumberMessages();
  void CollectOutputs();
  void CountMemory();

  std::vector<NetworkStep> steps_;
  std::vector<int> first_;
  std::vector<int> early_;
  uint64_t sends_ = 0;
  int pieces_ = 1;
  int scratch_blocks_ = 0;
  std::vector<Block> outputs_;
  std::unique_ptr<const EncodedProgram> encoded_;
  size_t memory_bytes_ = 0;
};

}  // namespace harmonaize
