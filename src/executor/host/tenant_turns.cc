#include "src/executor/host/tenant_turns.h"

#include <algorithm>
#include <bit>

namespace harmonaize {

int TenantPlaces::Join(uint32_t tenant) {
  int place = -1;
  for (int i = 0; i < kPlaces; ++i) {
    const Place& one = places_[static_cast<size_t>(i)];
    // The tenant keeps its place, so time spent for it before still counts.
    if (one.tenant == tenant) {
      place = i;
      break;
    }
    if (one.executions == 0 && place < 0) place = i;
  }
  if (place < 0) place = static_cast<int>(tenant % kPlaces);
  Place& joined = places_[static_cast<size_t>(place)];
  if (joined.executions++ == 0) {
    joined.tenant = tenant;
    ++busy_;
  }
  ++joins_;
  if (busy_ > 1 || (last_.has_value() && *last_ != tenant)) met_ = joins_;
  last_ = tenant;
  return place;
}

void TenantPlaces::Leave(int place) {
  if (--places_[static_cast<size_t>(place)].executions == 0) --busy_;
}

void TenantTurns::Begin(int place) {
  const double earliest = clock_.load(std::memory_order_relaxed) - kCreditNs;
  std::atomic<double>& start = start_[static_cast<size_t>(place)];
  double now = start.load(std::memory_order_relaxed);
  // A time that another thread charges meanwhile is not lost.
  while (now < earliest && !start.compare_exchange_weak(now, earliest, std::memory_order_relaxed)) {
  }
}

int TenantTurns::Next(uint32_t waiting) {
  int next = std::countr_zero(waiting);
  double start = StartOf(next);
  for (uint32_t left = waiting & (waiting - 1); left != 0; left &= left - 1) {
    const int place = std::countr_zero(left);
    const double other = StartOf(place);
    if (other >= start) continue;
    next = place;
    start = other;
  }
  if (start > clock_.load(std::memory_order_relaxed)) {
    clock_.store(start, std::memory_order_relaxed);
  }
  return next;
}

bool TenantTurns::IsFirst(int place, uint32_t waiting) const {
  const double start = StartOf(place);
  for (uint32_t left = waiting; left != 0; left &= left - 1) {
    const int other = std::countr_zero(left);
    if (other != place && StartOf(other) <= start) return false;
  }
  return true;
}

}  // namespace harmonaize
