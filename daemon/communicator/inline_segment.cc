#include "daemon/communicator/inline_segment.h"

#include <algorithm>
#include <utility>

#include "src/base/saturating.h"
#include "src/memory/shared_memory.h"
#include "src/topology/host/host.h"

namespace harmonaize::daemon {

Result<std::unique_ptr<InlineSegment>> InlineSegment::Create(int ranks, const InlineLimits& limits,
                                                             const Machine& machine) {
  // Only pages that ranks touch become memory. The daemon touches none of them, and it does not
  // keep the segment mapped.
  HZ_ASSIGN_OR_RETURN(SharedMemory memory,
                      CreateSharedMemory("harmonaize-inline", InlineLayout(ranks).bytes()));
  return std::unique_ptr<InlineSegment>(
      new InlineSegment(std::move(memory.descriptor), ranks, limits, machine));
}

InlineSegment::InlineSegment(FileDescriptor descriptor, int ranks, const InlineLimits& limits,
                             const Machine& machine)
    : descriptor_(std::move(descriptor)),
      limits_(limits),
      last_level_bytes_(machine.last_level_bytes),
      crowded_(static_cast<size_t>(ranks) > ThisHost().processors.size()),
      slots_(static_cast<size_t>(ranks)) {}

void InlineSegment::Attach(int rank, InlineSlot* slot) {
  slot->last_level_cache_bytes = last_level_bytes_;
  slot->crowded = crowded_ ? 1 : 0;
  // Relaxed: the rank reads the slot after the answer that hands it the segment.
  slot->gone.store(0, std::memory_order_relaxed);
  slot->operations.store(0, std::memory_order_relaxed);
  slot->bytes.store(0, std::memory_order_relaxed);
  TakeBackInlineWait(&slot->wait);
  Tell(slot);
  slots_[static_cast<size_t>(rank)] = slot;
}

// Relaxed: the ranks agree on the path of each operation, whatever each of them reads here.
void InlineSegment::Tell(InlineSlot* slot) const {
  for (size_t collective = 0; collective < kCollectiveCount; ++collective) {
    slot->registered[collective].store(limits_.registered[collective], std::memory_order_relaxed);
    slot->heap[collective].store(limits_.heap[collective], std::memory_order_relaxed);
  }
  slot->stream.store(limits_.stream, std::memory_order_relaxed);
  slot->open.store(open_ && !limits_.none ? 1 : 0, std::memory_order_relaxed);
}

void InlineSegment::SetLimits(const InlineLimits& limits) {
  limits_ = limits;
  for (InlineSlot* const slot : slots_) {
    if (slot != nullptr) Tell(slot);
  }
}

void InlineSegment::Detach(int rank) {
  InlineSlot*& slot = slots_[static_cast<size_t>(rank)];
  if (slot == nullptr) return;
  left_operations_ = std::max(left_operations_, slot->operations.load(std::memory_order_relaxed));
  left_bytes_ = AddUpTo(left_bytes_, slot->bytes.load(std::memory_order_relaxed));
  slot = nullptr;
}

void InlineSegment::Close() {
  open_ = false;
  for (InlineSlot* const slot : slots_) {
    if (slot != nullptr) slot->open.store(0, std::memory_order_relaxed);
  }
}

void InlineSegment::TellGone(int rank, uint32_t region) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    InlineSlot* const slot = slots_[i];
    if (slot == nullptr || i == static_cast<size_t>(rank)) continue;
    // Release, with the rank's acquire: a rank that reads this entry sees at least this count.
    const uint32_t number = slot->gone.load(std::memory_order_relaxed);
    slot->gone_regions[number % kGoneRegions].store(GoneRegion(rank, region),
                                                    std::memory_order_release);
    slot->gone.store(number + 1, std::memory_order_release);
  }
}

std::vector<std::pair<int, ToldInlineWait>> InlineSegment::Waits() const {
  std::vector<std::pair<int, ToldInlineWait>> waits;
  const auto ranks = static_cast<int>(slots_.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const InlineSlot* const slot = slots_[static_cast<size_t>(rank)];
    if (slot == nullptr) continue;
    if (const auto told = ReadInlineWait(slot->wait, rank, ranks)) waits.emplace_back(rank, *told);
  }
  return waits;
}

uint64_t InlineSegment::operations() const {
  uint64_t most = 0;
  for (const InlineSlot* const slot : slots_) {
    if (slot != nullptr) most = std::max(most, slot->operations.load(std::memory_order_relaxed));
  }
  return most;
}

uint64_t InlineSegment::bytes_moved() const {
  uint64_t sum = 0;
  for (const InlineSlot* const slot : slots_) {
    if (slot != nullptr) sum += slot->bytes.load(std::memory_order_relaxed);
  }
  return sum;
}

uint64_t InlineSegment::claimed_operations() const {
  return std::max(left_operations_, operations());
}

uint64_t InlineSegment::claimed_bytes() const {
  uint64_t sum = left_bytes_;
  for (const InlineSlot* const slot : slots_) {
    if (slot != nullptr) sum = AddUpTo(sum, slot->bytes.load(std::memory_order_relaxed));
  }
  return sum;
}

}  // namespace harmonaize::daemon
