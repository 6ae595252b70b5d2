#include "daemon/member.h"

#include "src/base/futex.h"

namespace harmonaize::daemon {

void Member::SetState(MemberState state) {
  // Sequentially consistent against the tenant's increment of `waiters`: see StreamQueue::Publish.
  slot->state.store(static_cast<uint32_t>(state), std::memory_order_seq_cst);
  if (slot->waiters.load(std::memory_order_seq_cst) > 0) FutexWakeAllShared(&slot->state);
}

void Member::Fail(Code code, std::string_view why) {
  slot->error.Set(why);
  slot->error_code.store(static_cast<uint32_t>(code), std::memory_order_release);
  SetState(MemberState::kFailed);
}

void Member::TellDeparture() {
  slot->departures.fetch_add(1, std::memory_order_seq_cst);
  if (slot->waiters.load(std::memory_order_seq_cst) > 0) FutexWakeAllShared(&slot->departures);
}

}  // namespace harmonaize::daemon
