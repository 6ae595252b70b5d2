#include "daemon/inline_segment.h"

#include <sched.h>

#include <algorithm>

namespace harmonaize::daemon {
namespace {

int Processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

}  // namespace

Result<std::unique_ptr<InlineSegment>> InlineSegment::Create(int ranks, const InlineLimits& limits,
                                                             const Machine& machine) {
  // Of this only the pages that the ranks touch ever become memory.
  Result<SharedMemory> memory =
      CreateSharedMemory("harmonaize-inline", InlineLayout(ranks).bytes());
  if (!memory.ok()) return memory.status();
  std::unique_ptr<InlineSegment> segment(new InlineSegment(std::move(*memory), ranks));
  InlineHeader& header = segment->header();
  header.magic = kInlineMagic;
  header.ranks = ranks;
  header.last_level_cache_bytes = machine.last_level_bytes;
  header.crowded = ranks > Processors() ? 1 : 0;
  segment->Steer(limits);
  header.steering.open.store(1, std::memory_order_relaxed);
  return segment;
}

void InlineSegment::Steer(const InlineLimits& limits) {
  InlineSteering& steering = header().steering;
  for (int collective = 0; collective < kCollectiveCount; ++collective) {
    for (int type = 0; type < kDataTypeCount; ++type) {
      steering.registered[collective][type].store(limits.registered, std::memory_order_relaxed);
      steering.heap[collective][type].store(limits.heap, std::memory_order_relaxed);
    }
  }
  steering.stream.store(limits.stream, std::memory_order_relaxed);
}

void InlineSegment::Close() {
  header().steering.open.store(0, std::memory_order_relaxed);
}

uint64_t InlineSegment::operations() const {
  uint64_t most = 0;
  for (int i = 0; i < ranks_; ++i) {
    most = std::max(most, rank(i).operations.load(std::memory_order_relaxed));
  }
  return most;
}

uint64_t InlineSegment::bytes_moved() const {
  uint64_t sum = 0;
  for (int i = 0; i < ranks_; ++i) sum += rank(i).bytes.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace harmonaize::daemon
