#include "src/ipc/inline_wait.h"

namespace harmonaize {
namespace {

/// Returns the bits of `ranks` ranks. A communicator on the inline path has at most 32.
uint32_t BitsOf(int ranks) {
  return static_cast<uint32_t>((uint64_t{1} << ranks) - 1);
}

bool IsSound(const InlineWait& wait, int ranks) {
  if (static_cast<int>(wait.collective) >= kCollectiveCount ||
      static_cast<int>(wait.type) >= kDataTypeCount ||
      static_cast<int>(wait.op) >= kReduceOperatorCount) {
    return false;
  }
  const bool has_root = HasRoot(wait.collective) || IsPointToPoint(wait.collective);
  return !has_root || (wait.root >= 0 && wait.root < ranks);
}

}  // namespace

// All accesses are sequentially consistent, since none of this is on a fast way. A reader that sees
// the same number before and after has read one wait, as in a sequence lock.
void TellInlineWait(const InlineWait& wait, uint32_t number, InlineWaitSlot* slot) {
  slot->number.store(0, std::memory_order_seq_cst);
  const uint32_t call = static_cast<uint32_t>(wait.collective) |
                        static_cast<uint32_t>(wait.type) << 8 |
                        static_cast<uint32_t>(wait.op) << 16;
  slot->call.store(call, std::memory_order_seq_cst);
  slot->root.store(wait.root, std::memory_order_seq_cst);
  slot->count.store(wait.count, std::memory_order_seq_cst);
  slot->ticket.store(wait.ticket, std::memory_order_seq_cst);
  slot->for_ranks.store(wait.for_ranks, std::memory_order_seq_cst);
  slot->number.store(number, std::memory_order_seq_cst);
}

void TakeBackInlineWait(InlineWaitSlot* slot) {
  slot->number.store(0, std::memory_order_seq_cst);
}

std::optional<ToldInlineWait> ReadInlineWait(const InlineWaitSlot& slot, int rank, int ranks) {
  ToldInlineWait told{.number = slot.number.load(std::memory_order_seq_cst)};
  if (told.number == 0) return std::nullopt;
  const uint32_t call = slot.call.load(std::memory_order_seq_cst);
  told.wait = {.collective = static_cast<Collective>(call & 255),
               .type = static_cast<DataType>(call >> 8 & 255),
               .op = static_cast<ReduceOperator>(call >> 16 & 255),
               .root = slot.root.load(std::memory_order_seq_cst),
               .count = slot.count.load(std::memory_order_seq_cst),
               .ticket = slot.ticket.load(std::memory_order_seq_cst),
               .for_ranks = slot.for_ranks.load(std::memory_order_seq_cst)};
  if (slot.number.load(std::memory_order_seq_cst) != told.number) return std::nullopt;
  if (!IsSound(told.wait, ranks)) return std::nullopt;
  told.wait.for_ranks &= BitsOf(ranks) & ~(uint32_t{1} << rank);
  return told;
}

}  // namespace harmonaize
