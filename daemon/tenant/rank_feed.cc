#include "daemon/tenant/rank_feed.h"

#include <algorithm>

#include "daemon/tenant/member.h"
#include "src/base/futex.h"

namespace harmonaize::daemon {
namespace {

bool CopiesAlong(const PostedOperation& part) {
  return (part.descriptor.flags & kCopiesAlong) != 0;
}

// Sequentially consistent, as StreamQueue's: see MarkAwaited.
void Tell(SliceProgress* progress, uint64_t count) {
  progress->carried.completed.store(count, std::memory_order_seq_cst);
  if (TakeReachedMark(&progress->carried, count))
    FutexWakeShared(&progress->carried.awaited, kMostWoken);
}

}  // namespace

void RankFeed::Assign(std::span<PostedOperation* const> parts) {
  ranks_.clear();
  slices_ = 0;
  for (const PostedOperation* part : parts) {
    if (!CopiesAlong(*part)) continue;
    ranks_.push_back(
        {&part->member->slot->progress, part->descriptor.sequence, part->member->rank});
  }
}

void RankFeed::Begin(uint64_t piece_elements, uint64_t slice_elements, uint32_t slices) {
  slices_ = slices;
  for (const Rank& rank : ranks_) {
    // Tell publishes these stores.
    rank.progress->piece_elements.store(piece_elements, std::memory_order_relaxed);
    rank.progress->slice_elements.store(slice_elements, std::memory_order_relaxed);
    rank.progress->slices.store(slices, std::memory_order_relaxed);
    Tell(rank.progress, SliceCount(rank.sequence, 0));
  }
}

// Acquire, so that the filled data is visible. Sequentially consistent, for the engine's last look
// before it sleeps: a rank that has filled a slice rings when it sees that the engine sleeps.
uint64_t RankFeed::Rank::Filled() const {
  return SlicesOf(sequence, progress->filled.load(std::memory_order_seq_cst));
}

uint64_t RankFeed::Filled() const {
  uint64_t filled = kAllSlices;
  for (const Rank& rank : ranks_) filled = std::min(filled, rank.Filled());
  // kAllSlices stands for all slices of an operation that has more of them than can be counted.
  return filled < kAllSlices ? filled : ~uint64_t{0};
}

void RankFeed::Carried(uint32_t slices) {
  if (slices >= kAllSlices) return;
  for (const Rank& rank : ranks_) Tell(rank.progress, SliceCount(rank.sequence, slices));
}

std::vector<int> RankFeed::Filling() const {
  std::vector<int> filling;
  for (const Rank& rank : ranks_) {
    if (rank.Filled() < std::min(slices_, kAllSlices)) filling.push_back(rank.rank);
  }
  return filling;
}

void EndSliceProgress(const PostedOperation& part) {
  if (!CopiesAlong(part)) return;
  Tell(&part.member->slot->progress, SliceCount(part.descriptor.sequence, kAllSlices));
}

}  // namespace harmonaize::daemon
