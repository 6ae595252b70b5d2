#include "daemon/tenant/member.h"

#include <algorithm>

#include "src/base/futex.h"

namespace harmonaize::daemon {
namespace {

/// Bytes of the daemon's memory that an offer takes: its places in Member::offered_regions and in
/// the region.
constexpr int64_t kOfferBytes = sizeof(uint32_t) + 48;

}  // namespace

void Member::SetState(MemberState state) {
  // Sequentially consistent against the tenant's increment of `waiters`: see StreamQueue::Publish.
  slot->state.store(static_cast<uint32_t>(state), std::memory_order_seq_cst);
  if (slot->waiters.load(std::memory_order_seq_cst) > 0) FutexWakeShared(&slot->state, kMostWoken);
}

void Member::Fail(Code code, std::string_view why) {
  slot->error.Set(why);
  slot->error_code.store(static_cast<uint32_t>(code), std::memory_order_release);
  SetState(MemberState::kFailed);
}

void Member::TellDeparture() {
  slot->departures.fetch_add(1, std::memory_order_seq_cst);
  if (slot->waiters.load(std::memory_order_seq_cst) > 0) {
    FutexWakeShared(&slot->departures, kMostWoken);
  }
}

Status Member::Offer(uint32_t region) {
  if (Offers(region)) return Status::Ok();
  if (offered_regions.size() == offered_regions.capacity()) {
    // The tenant pays for the memory before it is there, and until the member goes.
    constexpr size_t kLeastOffers = 8;
    const size_t more = std::max(kLeastOffers, offered_regions.size());
    HZ_RETURN_IF_ERROR(memory.Add(static_cast<int64_t>(more) * kOfferBytes));
    offered_regions.reserve(offered_regions.size() + more);
  }
  offered_regions.insert(std::upper_bound(offered_regions.begin(), offered_regions.end(), region),
                         region);
  return Status::Ok();
}

bool Member::TakeBackOffer(uint32_t region) {
  const auto found = std::lower_bound(offered_regions.begin(), offered_regions.end(), region);
  if (found == offered_regions.end() || *found != region) return false;
  offered_regions.erase(found);
  return true;
}

bool Member::Offers(uint32_t region) const {
  return std::binary_search(offered_regions.begin(), offered_regions.end(), region);
}

}  // namespace harmonaize::daemon
