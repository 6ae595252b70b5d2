#include "src/ipc/profile_ring.h"

#include <algorithm>
#include <utility>

#include "src/base/saturating.h"

namespace harmonaize {

size_t ProfileRingReader::Take(std::span<ProfileWords> records, uint64_t now_ns) {
  const size_t most = std::min<size_t>(records.size(), kProfileSlots);
  size_t taken = 0;
  while (taken < most) {
    const ProfileSlot& slot = ring_->slots[head_ % kProfileSlots];
    if (slot.turn.load(std::memory_order_acquire) != head_ + 1) break;
    for (size_t i = 0; i < kProfileWords; ++i) {
      records[taken][i] = slot.words[i].load(std::memory_order_relaxed);
    }
    ++head_;
    ++taken;
  }
  if (taken > 0 || ring_->tail.load(std::memory_order_relaxed) == head_) {
    hole_since_ns_ = 0;
  } else {
    SkipHole(now_ns);
  }
  ring_->head.store(head_, std::memory_order_release);
  return taken;
}

// The tail is the process's word. A false one only makes this ring's reader skip a slot now and
// then.
void ProfileRingReader::SkipHole(uint64_t now_ns) {
  if (hole_since_ns_ == 0) {
    hole_since_ns_ = std::max<uint64_t>(now_ns, 1);
    return;
  }
  if (now_ns - hole_since_ns_ < kProfileHoleNanoseconds) return;
  hole_since_ns_ = 0;
  ++head_;
  ++skipped_;
}

uint64_t ProfileRingReader::TakeLost() {
  const uint64_t told = ring_->lost.load(std::memory_order_relaxed);
  // A process that counts backwards has lost nothing.
  const uint64_t growth = told > told_lost_ ? told - told_lost_ : 0;
  told_lost_ = told;
  return AddUpTo(growth, std::exchange(skipped_, 0));
}

}  // namespace harmonaize
