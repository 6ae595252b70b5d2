#include "src/executor/host/cut.h"

#include <algorithm>

namespace harmonaize {
namespace {

constexpr uint64_t kCacheLineBytes = 64;

// Bytes that one unit reads and writes: 256 KiB slices of a two-rank all-reduce. Claiming a unit
// costs a fraction of a per cent of its time, and at memory speed it takes less than 100 us.
constexpr uint64_t kUnitTrafficBytes = uint64_t{1} << 20;
// Bytes of a unit while other tenants wait for their turns. Beside operations of 64 MiB, operations
// of 1 MiB get half of the bytes with this value, 37% with twice as much, and 64% with half of it.
constexpr uint64_t kSharedUnitTrafficBytes = uint64_t{512} << 10;

// Least bytes of a slice of an ordered program with very many steps: a copy shorter than a few
// cache lines costs as much as one of a few.
constexpr uint64_t kSmallestSliceBytes = 256;

// Bytes that are added to a stride that is a multiple of the page size: slots at such distances
// would share the sets of the first-level cache.
constexpr size_t kSlotSkewBytes = 2 * kCacheLineBytes;

uint64_t DivideUp(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}
uint64_t RoundUp(uint64_t a, uint64_t multiple) {
  return DivideUp(a, multiple) * multiple;
}

uint64_t UnitTrafficBytes(const WorkShape& shape) {
  return shape.shared ? kSharedUnitTrafficBytes : kUnitTrafficBytes;
}

// Returns the longest slice that keeps a unit's traffic and its staged data within their bounds.
uint64_t LargestSliceBytes(const WorkShape& shape, const Machine& machine) {
  const uint64_t references = shape.ordered ? shape.references : shape.step_references;
  uint64_t bytes = UnitTrafficBytes(shape) / std::max<uint64_t>(references, 1);
  const auto staged = static_cast<uint64_t>(shape.staging_slots + shape.scratch_blocks);
  if (staged > 0) bytes = std::min(bytes, machine.cache_bytes / 2 / staged);
  return std::max(bytes / kCacheLineBytes * kCacheLineBytes, kSmallestSliceBytes);
}

// Returns the least number of units for even shares of a sensible size.
uint64_t WantedUnits(const WorkShape& shape, uint64_t traffic_bytes) {
  const auto participants = static_cast<uint64_t>(shape.participants);
  const uint64_t shares =
      std::clamp<uint64_t>(traffic_bytes / kSmallestShareBytes, 1, participants);
  const uint64_t units = DivideUp(traffic_bytes, UnitTrafficBytes(shape));
  return units > shares ? RoundUp(units, participants) : shares;
}

}  // namespace

Result<Cut> CutWork(const WorkShape& shape, const Machine& machine) {
  Cut cut;
  const auto steps = static_cast<uint64_t>(shape.steps);
  if (steps == 0 || shape.block_elements == 0) return cut;
  const uint64_t block_bytes = shape.block_elements * shape.element_bytes;
  // The product saturates instead of wrapping; beyond 2^40 bytes the number of units does not
  // depend on it.
  const uint64_t traffic =
      shape.references * std::min(block_bytes, (uint64_t{1} << 62) / shape.references);
  const uint64_t wanted = WantedUnits(shape, traffic);
  const uint64_t by_shares = shape.ordered ? wanted : DivideUp(wanted, steps);
  const uint64_t by_size = DivideUp(block_bytes, LargestSliceBytes(shape, machine));
  // Where the work is cut at all, it is cut finer to keep the shares even.
  uint64_t slices = std::max(by_shares, by_size);
  if (slices > 1 && wanted > 1 && (shape.ordered || steps == 1)) {
    slices = RoundUp(slices, std::min<uint64_t>(wanted, static_cast<uint64_t>(shape.participants)));
  }
  // Both are powers of two.
  const uint64_t multiple = std::max(kCacheLineBytes / shape.element_bytes, shape.granule_elements);
  cut.slice_elements = RoundUp(DivideUp(shape.block_elements, slices), multiple);
  slices = DivideUp(shape.block_elements, cut.slice_elements);

  uint64_t steps_per_unit = 1;
  if (shape.ordered) {
    steps_per_unit = steps;
  } else if (slices == 1) {
    steps_per_unit = DivideUp(steps, wanted);
  }
  const uint64_t groups = DivideUp(steps, steps_per_unit);
  if (slices > kMostUnits / groups) {
    return InvalidArgument("an operation on blocks of {} bytes is too large", block_bytes);
  }
  cut.slices = static_cast<uint32_t>(slices);
  cut.steps_per_unit = static_cast<int>(steps_per_unit);
  cut.units = static_cast<uint32_t>(slices * groups);
  cut.stride_bytes =
      RoundUp(cut.slice_elements * shape.element_bytes, kCacheLineBytes) + kSlotSkewBytes;
  cut.staging_bytes =
      static_cast<size_t>(shape.staging_slots + shape.scratch_blocks) * cut.stride_bytes;
  return cut;
}

size_t UsualStagingBytes(const Machine& machine) {
  // Slots of a usual unit, each of which has a skew.
  constexpr size_t kUsualSlots = 64;
  return machine.cache_bytes / 2 + kUsualSlots * kSlotSkewBytes;
}

UnitExtent ExtentOfUnit(const Cut& cut, int steps, uint32_t unit) {
  const uint32_t group = unit / cut.slices;
  const uint32_t slice = unit % cut.slices;
  UnitExtent extent;
  extent.first_step = static_cast<int>(group) * cut.steps_per_unit;
  extent.end_step = std::min(extent.first_step + cut.steps_per_unit, steps);
  extent.first_element = slice * cut.slice_elements;
  extent.end_element = extent.first_element + cut.slice_elements;
  return extent;
}

}  // namespace harmonaize
