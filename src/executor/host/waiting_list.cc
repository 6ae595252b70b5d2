#include "src/executor/host/waiting_list.h"

namespace harmonaize {

void WaitingList::Push(Execution* execution) {
  OfTenant& tenant = OfPlace(*execution);
  execution->next_ = nullptr;
  execution->previous_ = tenant.first == nullptr ? nullptr : tenant.last;
  (tenant.first == nullptr ? tenant.first : tenant.last->next_) = execution;
  tenant.last = execution;
}

Execution* WaitingList::TakeNext() {
  OfTenant* next = nullptr;
  float least = 0;
  for (OfTenant& tenant : by_place_) {
    if (tenant.first == nullptr) continue;
    const float posted = static_cast<float>(tenant.posted) / tenant.first->bound_.weight;
    if (next != nullptr && posted >= least) continue;
    next = &tenant;
    least = posted;
  }
  if (next == nullptr) return nullptr;
  Execution* const execution = next->first;
  next->first = execution->next_;
  if (next->first != nullptr) next->first->previous_ = nullptr;
  return execution;
}

void WaitingList::Remove(Execution* execution) {
  OfTenant& tenant = OfPlace(*execution);
  Execution* const previous = execution->previous_;
  Execution* const next = execution->next_;
  (previous == nullptr ? tenant.first : previous->next_) = next;
  (next == nullptr ? tenant.last : next->previous_) = previous;
}

}  // namespace harmonaize
