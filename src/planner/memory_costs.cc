#include "src/planner/memory_costs.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/ipc/inline_segment.h"
#include "src/memory/shared_memory.h"
#include "src/numerics/reduce.h"
#include "src/planner/take_turns.h"

namespace harmonaize {
namespace {

// Nanoseconds for which the slots are measured, at least.
constexpr uint64_t kSlotsNanoseconds = 6'000'000;
// Number of sums beyond the caches, of which the fastest counts.
constexpr int kStreamTries = 3;

/// Bytes of each private buffer that is copied to or from the slots. They exceed a second-level
/// cache, as do the buffers of operations that either path might win; for smaller ones the inline
/// path certainly wins.
constexpr size_t kBuffersBytes = size_t{4} << 20;

/// Most bytes of all large buffers together: more would take too long to fault in. Larger caches
/// are the sum of several, of which one thread uses one.
constexpr size_t kMostLargeBytes = size_t{96} << 20;

double Rate(uint64_t bytes, uint64_t nanoseconds) {
  return static_cast<double>(bytes) * 1e9 / static_cast<double>(std::max<uint64_t>(nanoseconds, 1));
}

template <typename Work>
void TimeBest(uint64_t* best, Work work) {
  const uint64_t start = MonotonicNanoseconds();
  work();
  *best = std::min(*best, MonotonicNanoseconds() - start);
}

void Sum(const std::byte* first, const std::byte* second, std::byte* sum, size_t bytes,
         bool non_temporal) {
  const std::array<const std::byte*, 2> inputs = {first, second};
  const std::array<std::byte*, 1> outputs = {sum};
  Reduce({.type = DataType::kFloat32,
          .op = ReduceOperator::kSum,
          .inputs = inputs,
          .outputs = outputs,
          .count = bytes / sizeof(float),
          .scalars = {},
          .divisor = 1,
          .non_temporal = non_temporal});
}

/// Maps anonymous memory that is faulted in already.
Result<Mapping> MapTouched(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return ErrnoError(errno, "cannot map memory to measure this host with");
  return Mapping(static_cast<std::byte*>(memory), bytes);
}

}  // namespace

Status MeasureSlots(HostCosts* costs) {
  constexpr size_t kSlots = 4;
  constexpr size_t kBytes = kInlineSlotBytes;
  HZ_ASSIGN_OR_RETURN(SharedMemory slots,
                      CreateSharedMemory("harmonaize-calibration", kSlots * kBytes));
  const std::vector<std::byte> sent(kBuffersBytes, std::byte{1});
  const std::vector<std::byte> own(kBuffersBytes, std::byte{1});
  std::vector<std::byte> received(kBuffersBytes);
  uint64_t copy = UINT64_MAX;
  uint64_t fetch = UINT64_MAX;
  uint64_t reduce = UINT64_MAX;
  size_t turn = 0;
  const uint64_t start = MonotonicNanoseconds();
  const auto slot = [&] { return slots.mapping.data() + turn % kSlots * kBytes; };
  const auto at = [&] { return turn * kBytes % kBuffersBytes; };
  const auto publish = [&] { TimeBest(&copy, [&] { std::memcpy(slot(), &sent[at()], kBytes); }); };
  const auto take_in = [&] {
    // All slots are fetched in one round, and reduced in the next.
    if (turn / kSlots % 2 == 0) {
      TimeBest(&fetch, [&] { std::memcpy(&received[at()], slot(), kBytes); });
    } else {
      TimeBest(&reduce, [&] { Sum(slot(), &own[at()], &received[at()], kBytes, false); });
    }
    return ++turn < 4 * kSlots || MonotonicNanoseconds() - start < kSlotsNanoseconds;
  };
  TakeTurns(TwoProcessors::Usable(), take_in, publish);
  costs->copy_bytes_per_second = Rate(kBytes, copy);
  costs->fetch_bytes_per_second = Rate(kBytes, fetch);
  costs->reduce_bytes_per_second = Rate(3 * kBytes, reduce);
  return Status::Ok();
}

Status MeasureLargeBuffers(size_t last_level_bytes, HostCosts* costs) {
  const size_t total = std::clamp(2 * last_level_bytes, size_t{16} << 20, kMostLargeBytes);
  HZ_ASSIGN_OR_RETURN(Mapping memory, MapTouched(total));
  const size_t bytes = total / 3 / 4096 * 4096;
  std::byte* const first = memory.data();
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < kStreamTries; ++i) {
    TimeBest(&best, [&] { Sum(first, first + bytes, first + 2 * bytes, bytes, true); });
  }
  costs->stream_bytes_per_second = Rate(3 * bytes, best);
  return Status::Ok();
}

}  // namespace harmonaize
