#include "src/ipc/session_segment.h"

#include <bit>

namespace harmonaize {

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

std::atomic<uint32_t>* CompletionFutex(StreamSlot* slot) {
  auto* halves = reinterpret_cast<std::atomic<uint32_t>*>(&slot->completed);
  return std::endian::native == std::endian::little ? halves : halves + 1;
}

}  // namespace harmonaize
