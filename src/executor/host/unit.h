#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "src/executor/host/execution.h"
#include "src/executor/network/staging.h"
#include "src/numerics/reduce_wire.h"

namespace harmonaize {

/// Carries out units in the thread that it belongs to. Buffers are used in place. Scratch blocks,
/// and the data that an exchange holds meanwhile, lie in the thread's staging area.
class UnitRunner {
 public:
  /// `staging_bytes` is what most units need; a unit that needs more allocates it.
  explicit UnitRunner(size_t staging_bytes) : staging_(staging_bytes) {}

  /// Runs unit `unit` of `bound`, step by step, until the end or `stopped`. Returns the number of
  /// bytes read and written.
  uint64_t Run(const BoundProgram& bound, uint32_t unit, const std::atomic<bool>& stopped);

 private:
  void RunStep(const Step& step);
  void RunReduce(const Step& step);
  void RunCopy(const Step& step);
  void RunExchange(const Step& step);
  /// Runs a copy or a reduction of buffers of which some are in a wire format.
  void RunEncoded(const Step& step);

  /// Returns where the slice of a block lies; for a scratch block, this thread's copy.
  MemoryView Resolve(const Block& block) const;
  std::byte* Slot(int index) const;

  StagingArea staging_;
  // State of the current unit and step.
  const BoundProgram* bound_ = nullptr;
  uint64_t moved_bytes_ = 0;
  uint64_t first_element_ = 0;
  size_t elements_ = 0;
  size_t bytes_ = 0;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::vector<uint64_t> scalars_;
  std::vector<WireBuffer<const std::byte>> wire_inputs_;
  std::vector<WireBuffer<std::byte>> wire_outputs_;
};

}  // namespace harmonaize
