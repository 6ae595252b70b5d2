#include "daemon/rank_feed.h"

#include <algorithm>

#include "daemon/member.h"
#include "src/base/futex.h"

namespace harmonaize::daemon {
namespace {

bool CopiesAlong(const PostedOperation& part) {
  return (part.descriptor.flags & kCopiesAlong) != 0;
}

// Sequentially consistent, as StreamQueue's: see MarkAwaited.
void Tell(SliceProgress* progress, uint64_t count) {
  progress->carried.completed.store(count, std::memory_order_seq_cst);
  if (TakeReachedMark(&progress->carried, count)) FutexWakeAllShared(&progress->carried.awaited);
}

}  // namespace

void RankFeed::Assign(std::span<PostedOperation* const> parts) {
  ranks_.clear();
  for (const PostedOperation* part : parts) {
    if (!CopiesAlong(*part)) continue;
    ranks_.push_back({&part->member->slot->progress, part->descriptor.sequence});
  }
}

void RankFeed::Begin(uint64_t piece_elements, uint64_t slice_elements, uint32_t slices) {
  for (const Rank& rank : ranks_) {
    // Published by what is told then.
    rank.progress->piece_elements.store(piece_elements, std::memory_order_relaxed);
    rank.progress->slice_elements.store(slice_elements, std::memory_order_relaxed);
    rank.progress->slices.store(slices, std::memory_order_relaxed);
    Tell(rank.progress, SliceCount(rank.sequence, 0));
  }
}

uint64_t RankFeed::Filled() const {
  uint64_t filled = kAllSlices;
  for (const Rank& rank : ranks_) {
    // Acquire, for what was filled. Sequentially consistent, for the engine's last look before it
    // sleeps: a rank that fills rings when it sees that the engine sleeps.
    const uint64_t count = rank.progress->filled.load(std::memory_order_seq_cst);
    filled = std::min(filled, SlicesOf(rank.sequence, count));
  }
  // All, of an operation of more slices than can be counted.
  return filled < kAllSlices ? filled : ~uint64_t{0};
}

void RankFeed::Carried(uint32_t slices) {
  if (slices >= kAllSlices) return;
  for (const Rank& rank : ranks_) Tell(rank.progress, SliceCount(rank.sequence, slices));
}

void EndSliceProgress(const PostedOperation& part) {
  if (!CopiesAlong(part)) return;
  Tell(&part.member->slot->progress, SliceCount(part.descriptor.sequence, kAllSlices));
}

}  // namespace harmonaize::daemon
