#include "src/executor/host/waiting_list.h"

namespace harmonaize {

void WaitingList::Push(Execution* execution) {
  OfPlace(*execution).waiting.PushBack(execution);
  ++waiting_;
}

// Requires: some wait.
Execution* WaitingList::TakeOne() {
  OfTenant* next = nullptr;
  float least = 0;
  for (OfTenant& tenant : by_place_) {
    const Execution* const first = tenant.waiting.Front();
    if (first == nullptr) continue;
    const float posted = static_cast<float>(tenant.posted) / first->bound_.weight;
    if (next != nullptr && posted >= least) continue;
    next = &tenant;
    least = posted;
  }
  --waiting_;
  return next->waiting.PopFront();
}

}  // namespace harmonaize
