#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/status.h"
#include "src/executor/host/machine.h"

namespace harmonaize {

/// Least bytes, read and written, of a portion in which work is shared out. A smaller one takes
/// about as long as waking a thread for it, 5 to 10 us.
inline constexpr uint64_t kSmallestShareBytes = uint64_t{256} << 10;

/// Most units of a cut. WorkBoard counts them in 28 bits of a word.
inline constexpr uint64_t kMostUnits = (uint64_t{1} << 28) - 1;

/// The properties of a bound program that CutWork uses. "References" are the blocks that a step
/// names, sources and destinations alike; each costs memory traffic.
struct WorkShape {
  uint64_t block_elements = 0;  ///< Elements of the longest block.
  size_t element_bytes = 1;
  int steps = 0;
  uint64_t references = 0;       ///< References of all steps together.
  uint64_t step_references = 0;  ///< References of the step that has most.
  int staging_slots = 0;         ///< Most copies in own memory that a step needs at once.
  int scratch_blocks = 0;
  /// Whether the steps depend on each other, or share scratch.
  bool ordered = false;
  /// Threads among which the work is shared.
  int participants = 1;
  /// Whether other tenants wait for their turns.
  bool shared = false;
  /// Slices begin at multiples of this number of elements, besides those of a cache line.
  uint64_t granule_elements = 1;
};

/// Cut of an execution's work into units, the pieces that threads claim. Blocks are cut into slices
/// of elements; a unit is a slice of one or more consecutive steps.
///
/// Every step is elementwise, so dependencies stay inside a slice. An ordered program therefore has
/// all its steps in every unit: no unit ever waits for another, and scratch blocks are a slice
/// long, private to the thread and hot in its cache.
struct Cut {
  uint64_t slice_elements = 0;
  uint32_t slices = 0;
  int steps_per_unit = 0;
  uint32_t units = 0;
  /// Bytes from one staging slot or scratch block to the next.
  size_t stride_bytes = 0;
  /// Own memory that a thread needs for a unit.
  size_t staging_bytes = 0;
};

/// The steps and elements (relative to each block) of one unit.
struct UnitExtent {
  int first_step = 0;
  int end_step = 0;
  uint64_t first_element = 0;
  uint64_t end_element = 0;
};

/// Cuts so that the staged data of a unit stays in half the private cache, a unit takes well below
/// 100 us, all participants get even shares, and work too small to share is one unit. Slices begin
/// at multiples of a cache line relative to the block. No work gives 0 units.
/// Errors: kInvalidArgument when it would take more than kMostUnits units.
Result<Cut> CutWork(const WorkShape& shape, const Machine& machine);

/// Returns the own memory that a thread needs for all units but those that stage more than 64
/// blocks.
size_t UsualStagingBytes(const Machine& machine);

/// Returns the extent of unit `unit` < cut.units of a program with `steps` steps. Units of one step
/// are consecutive, so threads that claim in order walk through memory together.
UnitExtent ExtentOfUnit(const Cut& cut, int steps, uint32_t unit);

}  // namespace harmonaize
