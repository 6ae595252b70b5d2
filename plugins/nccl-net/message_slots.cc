#include "plugins/nccl-net/message_slots.h"

#include <new>

#include "src/client/operation/staging.h"

namespace harmonaize::nccl_net {
namespace {

/// Bytes of the memory that is cut into slots at once: a page.
constexpr uint64_t kBlockBytes = 4096;
constexpr uint64_t kSlotBytes = sizeof(MessageOutcome) + MessageSlot::kPayloadBytes;
static_assert(kSlotBytes == 64, "a slot is one cache line");

}  // namespace

MessageSlots::~MessageSlots() {
  if (session_->inherited()) return;  // a lock of the pool may be held for ever
  for (std::byte* const block : blocks_) StagingPool::Get().Release(block, kBlockBytes);
}

Result<MessageSlot> MessageSlots::Take() {
  if (free_.empty()) {
    HZ_ASSIGN_OR_RETURN(const StagingBuffer block, AcquireFor(*session_, kBlockBytes));
    blocks_.push_back(block.memory);
    for (uint64_t offset = 0; offset < kBlockBytes; offset += kSlotBytes) {
      MessageSlot slot;
      slot.outcome = new (block.memory + offset) MessageOutcome{};
      slot.payload = block.memory + offset + sizeof(MessageOutcome);
      slot.outcome_place = block.reference;
      slot.outcome_place.offset += offset;
      slot.payload_place = slot.outcome_place;
      slot.payload_place.offset += sizeof(MessageOutcome);
      free_.push_back(slot);
    }
  }
  const MessageSlot slot = free_.back();
  free_.pop_back();
  // The daemon sees these before the message: Session::Submit orders them.
  slot.outcome->bytes.store(0, std::memory_order_relaxed);
  slot.outcome->end.store(kUnderWay, std::memory_order_relaxed);
  return slot;
}

}  // namespace harmonaize::nccl_net
