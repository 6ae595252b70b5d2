#include "src/ipc/session_segment.h"

#include "src/base/futex.h"

namespace harmonaize {
namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

/// Half of all 32-bit numbers are ahead of any one, so a mark is understood if it is less than two
/// billion positions old.
bool IsReached(uint32_t mark, uint32_t position) {
  return static_cast<int32_t>(position - mark) >= 0;
}

}  // namespace

uint32_t MarkAwaited(StreamSlot* slot, uint64_t position) {
  // 0 stands for no mark. The position before does as well: a thread that is woken for it marks
  // again.
  const uint32_t low = static_cast<uint32_t>(position);
  const uint32_t own = low != 0 ? low : ~uint32_t{0};
  uint32_t seen = slot->awaited.load(std::memory_order_relaxed);
  while (true) {
    const uint32_t next = seen != 0 && IsReached(seen, own) ? seen : own;
    if (slot->awaited.compare_exchange_weak(seen, next, std::memory_order_seq_cst)) return next;
  }
}

bool LeaveMark(StreamSlot* slot, uint32_t word) {
  // The mark is removed before the count: a thread that comes after it marks for itself.
  const bool taken = slot->awaited.compare_exchange_strong(word, 0, std::memory_order_seq_cst);
  const bool alone = slot->waiters.fetch_sub(1, std::memory_order_seq_cst) == 1;
  return taken && !alone;
}

bool TakeReachedMark(StreamSlot* slot, uint64_t completed) {
  if (slot->waiters.load(std::memory_order_seq_cst) == 0) return false;
  const uint32_t mark = slot->awaited.load(std::memory_order_seq_cst);
  if (mark == 0 || !IsReached(mark, static_cast<uint32_t>(completed))) return false;
  return slot->awaited.exchange(0, std::memory_order_seq_cst) != 0;
}

uint32_t ExpectNews(SessionHeader* header) {
  const uint32_t word = header->news.load(std::memory_order_seq_cst);
  header->news_wanted.store(1, std::memory_order_seq_cst);
  return word;
}

void TellNews(SessionHeader* header) {
  if (header->news_wanted.load(std::memory_order_seq_cst) == 0) return;
  header->news_wanted.store(0, std::memory_order_seq_cst);
  header->news.fetch_add(1, std::memory_order_seq_cst);
  FutexWakeShared(&header->news, kMostWoken);
}

}  // namespace harmonaize
