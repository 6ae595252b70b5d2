#include "daemon/tenant/rank_feed.h"

#include <algorithm>

#include "daemon/tenant/member.h"
#include "daemon/tenant/session.h"
#include "src/base/futex.h"
#include "src/ipc/window_layout.h"
#include "src/numerics/types.h"

namespace harmonaize::daemon {
namespace {

// Sequentially consistent, as StreamQueue's: see MarkAwaited.
void Tell(const Member& member, SliceLane lane, uint64_t count) {
  StreamSlot& carried = member.slot->lanes[lane].carried;
  carried.completed.store(count, std::memory_order_seq_cst);
  if (TakeReachedMark(&carried, count)) FutexWakeShared(&carried.awaited, kMostWoken);
  TellNews(member.header);
}

}  // namespace

bool HasWindows(const PostedOperation& part) {
  return (part.descriptor.flags & (kSendWindow | kReceiveWindow)) != 0;
}

SliceLane LaneOf(const PostedOperation& part) {
  switch (part.descriptor.collective) {
    case Collective::kSend: return part.crosses_hosts ? kFarSendLane : kSendLane;
    case Collective::kReceive: return part.crosses_hosts ? kFarReceiveLane : kReceiveLane;
    default: return kCollectiveLane;
  }
}

void RankFeed::Assign(std::span<PostedOperation* const> parts) {
  ranks_.clear();
  shape_ = {};
  carried_ = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    PostedOperation* const part = parts[i];
    if (!HasWindows(*part)) continue;
    const bool pair = IsPointToPoint(part->descriptor.collective);
    const SliceLane lane = LaneOf(*part);
    ranks_.push_back({.part = part,
                      .place = pair ? i : static_cast<size_t>(part->member->rank),
                      .element_bytes = pair ? 1 : DataTypeSize(part->descriptor.type),
                      .lane = lane,
                      .progress = &part->member->slot->lanes[lane],
                      .sequence = part->descriptor.sequence});
  }
}

void RankFeed::Begin(const SliceShape& shape) {
  shape_ = shape;
  for (const Rank& rank : ranks_) {
    // Tell publishes these stores.
    rank.progress->piece_elements.store(shape.piece_elements, std::memory_order_relaxed);
    rank.progress->pieces.store(shape.pieces, std::memory_order_relaxed);
    rank.progress->slice_elements.store(shape.slice_elements, std::memory_order_relaxed);
    rank.progress->slices.store(shape.slices, std::memory_order_relaxed);
    rank.progress->slots.store(shape.slots, std::memory_order_relaxed);
    rank.part->member->sliced[rank.lane] = rank.part;
    Tell(*rank.part->member, rank.lane, SliceCount(rank.sequence, 0));
  }
}

// Acquire, so that the filled data is visible. Sequentially consistent, for the engine's last look
// before it sleeps: a rank that has filled a slice rings when it sees that the engine sleeps.
uint64_t RankFeed::Rank::Filled() const {
  const uint64_t count = progress->filled.load(std::memory_order_seq_cst);
  return CountsFor(sequence, count) ? SlicesOf(sequence, count) : 0;
}

uint64_t RankFeed::Filled() const {
  uint64_t filled = kAllSlices;
  for (const Rank& rank : ranks_) filled = std::min(filled, rank.Filled());
  // kAllSlices stands for all slices of an operation that has more of them than can be counted.
  return filled < kAllSlices ? filled : ~uint64_t{0};
}

Status RankFeed::PlaceWindows(std::vector<SlicedBuffer>* inputs,
                              std::vector<SlicedBuffer>* outputs) {
  for (const Rank& rank : ranks_) HZ_RETURN_IF_ERROR(PlaceWindow(rank, inputs, outputs));
  return Status::Ok();
}

Status RankFeed::PlaceWindow(const Rank& rank, std::vector<SlicedBuffer>* inputs,
                             std::vector<SlicedBuffer>* outputs) const {
  const OperationDescriptor& descriptor = rank.part->descriptor;
  const Member& member = *rank.part->member;
  const BufferBlocks units =
      BlocksOf(descriptor.collective, member.ranks, member.rank, descriptor.root);
  const WindowLayout layout = LayoutOf(units, member.rank, shape_.pieces, descriptor.flags);
  if (layout.blocks == 0) return Status::Ok();  // it has no part in the operation
  const uint64_t slot_bytes = layout.SlotBytes(shape_.slice_elements, rank.element_bytes);
  // Filled, which the rank stores later, was read with acquire.
  const BufferReference place{rank.progress->window_offset.load(std::memory_order_relaxed),
                              rank.progress->window_region.load(std::memory_order_relaxed)};
  HZ_ASSIGN_OR_RETURN(std::byte* const first,
                      member.session->UseWindow(rank.part, place, slot_bytes, shape_.slots));
  const uint64_t block = shape_.slice_elements * rank.element_bytes;
  const bool sends = (descriptor.flags & kSendWindow) != 0 && units.send > 0;
  const bool receives = (descriptor.flags & kReceiveWindow) != 0 && units.receive > 0;
  if (sends) (*inputs)[rank.place] = {MemoryView{first + layout.send * block}, slot_bytes};
  if (receives) (*outputs)[rank.place] = {MemoryView{first + layout.receive * block}, slot_bytes};
  return Status::Ok();
}

void RankFeed::Carried(uint32_t slices) {
  carried_ = slices;
  if (slices >= kAllSlices) return;
  for (const Rank& rank : ranks_) {
    Tell(*rank.part->member, rank.lane, SliceCount(rank.sequence, slices));
  }
}

std::vector<int> RankFeed::Filling() const {
  // A rank whose window is full sleeps until up to half of its slots can be drained
  // (WindowCopy::Awaited). Until then it fills none of the slots that were carried.
  const uint64_t woken_for = std::max<uint64_t>(shape_.slots / 2, 1);
  const uint64_t ahead = shape_.slots - woken_for + 1;
  const uint64_t room = std::min(uint64_t{shape_.slices}, carried_ + ahead);
  std::vector<int> filling;
  for (const Rank& rank : ranks_) {
    if (rank.Filled() < std::min(room, kAllSlices)) {
      filling.push_back(rank.part->member->rank);
    }
  }
  return filling;
}

void EndSliceProgress(const PostedOperation& part) {
  Member& member = *part.member;
  const SliceLane lane = LaneOf(part);
  if (member.sliced[lane] != &part) return;
  member.sliced[lane] = nullptr;
  Tell(member, lane, SliceCount(part.descriptor.sequence, kAllSlices));
}

}  // namespace harmonaize::daemon
