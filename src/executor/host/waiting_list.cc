#include "src/executor/host/waiting_list.h"

namespace harmonaize {

void WaitingList::Push(Execution* execution) {
  OfTenant& tenant = OfPlace(*execution);
  execution->next_ = nullptr;
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
  return execution;
}

void WaitingList::Remove(Execution* execution) {
  OfTenant& tenant = OfPlace(*execution);
  Execution* previous = nullptr;
  for (Execution* e = tenant.first; e != nullptr; previous = e, e = e->next_) {
    if (e != execution) continue;
    (previous == nullptr ? tenant.first : previous->next_) = e->next_;
    if (tenant.last == e) tenant.last = previous;
    return;
  }
}

}  // namespace harmonaize
