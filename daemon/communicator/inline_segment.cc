#include "daemon/communicator/inline_segment.h"

#include <algorithm>

#include "src/topology/host/host.h"

namespace harmonaize::daemon {

Result<std::unique_ptr<InlineSegment>> InlineSegment::Create(int ranks, const InlineLimits& limits,
                                                             const Machine& machine) {
  // Of this only the pages that the ranks touch ever become memory.
  HZ_ASSIGN_OR_RETURN(SharedMemory memory,
                      CreateSharedMemory("harmonaize-inline", InlineLayout(ranks).bytes()));
  std::unique_ptr<InlineSegment> segment(new InlineSegment(std::move(memory), ranks));
  InlineHeader& header = segment->header();
  header.last_level_cache_bytes = machine.last_level_bytes;
  header.crowded = static_cast<size_t>(ranks) > ThisHost().processors.size() ? 1 : 0;
  segment->Steer(limits);
  header.steering.open.store(1, std::memory_order_relaxed);
  return segment;
}

void InlineSegment::Steer(const InlineLimits& limits) {
  InlineSteering& steering = header().steering;
  for (size_t collective = 0; collective < kCollectiveCount; ++collective) {
    // What moves is bytes: a type's share of the work is lost in what memory costs.
    for (size_t type = 0; type < kDataTypeCount; ++type) {
      steering.registered[collective][type].store(limits.registered[collective],
                                                  std::memory_order_relaxed);
      steering.heap[collective][type].store(limits.heap[collective], std::memory_order_relaxed);
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
