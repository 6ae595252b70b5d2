#include "src/executor/tenant_turns.h"

#include <algorithm>
#include <bit>

namespace harmonaize {

int TenantPlaces::Join(uint32_t tenant) {
  int place = -1;
  for (int i = 0; i < kPlaces; ++i) {
    const Place& one = places_[static_cast<size_t>(i)];
    // What was done for it before still counts.
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

int TenantTurns::Next(uint32_t waiting) {
  int next = std::countr_zero(waiting);
  for (uint32_t left = waiting; left != 0; left &= left - 1) {
    const int place = std::countr_zero(left);
    double& start = start_[static_cast<size_t>(place)];
    if ((waited_ >> place & 1) == 0) start = std::max(start, clock_ - kCreditNs);
    if (start < start_[static_cast<size_t>(next)]) next = place;
  }
  waited_ = waiting;
  clock_ = std::max(clock_, start_[static_cast<size_t>(next)]);
  return next;
}

}  // namespace harmonaize
