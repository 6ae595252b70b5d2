// Sends and receives on the inline path: beside the flag, through the pair's ring, or directly.

#include <algorithm>
#include <cstring>

#include "src/client/inline/inline_operation.h"
#include "src/client/operation/communicator.h"

namespace harmonaize {

// Prepares the first piece: it travels with the line, or lies in the first slot before the post.
void InlineOperation::StartSend() {
  const uint64_t bytes = operation_->count * DataTypeSize(operation_->type);
  InlineLine& line = rendezvous_.own_line();
  in_line_ = bytes <= kInlineLineBytes;
  pieces_ = in_line_ ? 0 : (bytes + kInlinePairSlotBytes - 1) / kInlinePairSlotBytes;
  line.scalar = kSendInRing;
  if (in_line_) {
    if (bytes > 0) std::memcpy(line.data, operation_->send, bytes);
    return;
  }
  if (LocateSend(bytes)) return;
  // The ring is empty except for slots whose emptying the last receiver has not announced yet.
  if (FillSlot()) line.scalar = kSendInRingFirstFilled;
}

// A send from registered memory takes a slot of the ring without filling it: the receiver drains it
// when it has copied the data.
bool InlineOperation::LocateSend(uint64_t bytes) {
  if (bytes < kLeastDirectBytes) return false;
  const BufferReference found =
      path_->Locate(operation_->communicator->session(), operation_->send, bytes);
  if (found.region == kNoBuffer) return false;
  const DirectBuffer buffer{found.offset, found.region};
  InlineLine& line = rendezvous_.own_line();
  std::memcpy(line.data, &buffer, sizeof buffer);
  line.scalar = kSendDirectly;
  direct_ = true;
  pieces_ = 1;
  return true;
}

Status InlineOperation::ReceiveDirectly(uint64_t bytes) {
  Communicator& communicator = *operation_->communicator;
  DirectBuffer buffer;
  std::memcpy(&buffer, rendezvous_.line_of(0).data, sizeof buffer);
  path_->peer_memory().Trim();
  HZ_ASSIGN_OR_RETURN(
      const std::byte* const from,
      path_->peer_memory().Find(communicator.session(), communicator.member(), operation_->root,
                                buffer.region, buffer.offset, bytes));
  std::memcpy(operation_->receive, from, bytes);
  return Status::Ok();
}

// Copies the next piece into the ring, if there is room.
bool InlineOperation::FillSlot() {
  const InlinePair& pair = path_->Pair(path_->rank(), operation_->root);
  const uint64_t slot = sequence_->ring + published_;
  // Acquire: the receiver has read what the slot held before.
  if (slot - pair.drained.load(std::memory_order_acquire) >= kInlinePairSlots) return false;
  const uint64_t bytes = operation_->count * DataTypeSize(operation_->type);
  const uint64_t first = published_ * kInlinePairSlotBytes;
  std::memcpy(path_->PairSlot(path_->rank(), operation_->root, slot),
              static_cast<const std::byte*>(operation_->send) + first,
              std::min(kInlinePairSlotBytes, bytes - first));
  ++published_;
  return true;
}

void InlineOperation::AdvanceSend() {
  InlinePair& pair = path_->Pair(path_->rank(), operation_->root);
  if (direct_) {
    // Acquire: the receiver has read all the data.
    if (pair.drained.load(std::memory_order_acquire) <= sequence_->ring) return;
    sequence_->ring += 1;
    Finish();
    return;
  }
  bool filled = false;
  while (published_ < pieces_ && FillSlot()) {
    pair.filled.store(sequence_->ring + published_, std::memory_order_release);
    filled = true;
  }
  if (filled) path_->Notify();
  if (published_ < pieces_) return;
  sequence_->ring += pieces_;
  Finish();
}

void InlineOperation::AdvanceReceive() {
  InlinePair& pair = path_->Pair(operation_->root, path_->rank());
  const InlineLine& line = rendezvous_.line_of(0);
  const uint64_t bytes = operation_->count * DataTypeSize(operation_->type);
  auto* const to = static_cast<std::byte*>(operation_->receive);
  if (bytes <= kInlineLineBytes) {
    if (bytes > 0) std::memcpy(to, line.data, bytes);
    Finish();
    return;
  }
  if (line.scalar == kSendDirectly) {
    if (Status status = ReceiveDirectly(bytes); !status.ok()) return Fail(std::move(status));
    pair.drained.store(++sequence_->ring, std::memory_order_release);
    path_->Notify();
    Finish();
    return;
  }
  pieces_ = (bytes + kInlinePairSlotBytes - 1) / kInlinePairSlotBytes;
  while (taken_ < pieces_) {
    const uint64_t slot = sequence_->ring + taken_;
    const bool came_with_line = taken_ == 0 && line.scalar == kSendInRingFirstFilled;
    if (!came_with_line && pair.filled.load(std::memory_order_acquire) <= slot) return;
    const uint64_t first = taken_ * kInlinePairSlotBytes;
    std::memcpy(to + first, path_->PairSlot(operation_->root, path_->rank(), slot),
                std::min(kInlinePairSlotBytes, bytes - first));
    ++taken_;
    pair.drained.store(slot + 1, std::memory_order_release);
    path_->Notify();
  }
  sequence_->ring += pieces_;
  Finish();
}

}  // namespace harmonaize
