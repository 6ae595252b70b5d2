#include "src/executor/host/throughput.h"

#include <array>

#include "src/base/clock.h"
#include "src/executor/network/staging.h"
#include "src/numerics/reduce.h"

namespace harmonaize {
namespace {

// Nanoseconds for which each class of buffers, within the caches and beyond, is measured.
constexpr uint64_t kNanosecondsPerClass = 2'000'000;

// Repeats `work` for a while. Returns the bytes per second of the fastest call, because only other
// programs slow a call down here.
template <typename Work>
double FastestRate(uint64_t bytes_per_call, Work work) {
  uint64_t best = UINT64_MAX;
  const uint64_t start = MonotonicNanoseconds();
  uint64_t now = start;
  do {
    const uint64_t before = now;
    work();
    now = MonotonicNanoseconds();
    if (now - before < best) best = now - before;
  } while (now - start < kNanosecondsPerClass);
  return static_cast<double>(bytes_per_call) * 1e9 / static_cast<double>(best > 0 ? best : 1);
}

// Measures a two-input sum, which is what an all-reduce of two ranks does to a slice.
double ReductionRate(std::byte* memory, size_t bytes, bool non_temporal) {
  const std::array<const std::byte*, 2> inputs = {memory, memory + bytes};
  const std::array<std::byte*, 2> outputs = {memory + 2 * bytes, memory + 3 * bytes};
  return FastestRate(4 * bytes, [&] {
    Reduce({.type = DataType::kFloat32,
            .op = ReduceOperator::kSum,
            .inputs = inputs,
            .outputs = outputs,
            .count = bytes / sizeof(float),
            .scalars = {},
            .divisor = 1,
            .non_temporal = non_temporal});
  });
}

}  // namespace

void Calibrate(Throughput& throughput) {
  constexpr size_t kSlice = size_t{64} << 10;
  StagingArea memory(4 * kSlice);
  throughput.Set(false, ReductionRate(memory.data(), kSlice, false));
  // Stores past the cache run at the memory's speed, which dominates large operations. Faulting in
  // a buffer that really exceeds the cache would take longer than the whole measurement.
  throughput.Set(true, ReductionRate(memory.data(), kSlice, true));
}

}  // namespace harmonaize
