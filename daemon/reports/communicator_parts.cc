#include "daemon/reports/communicator_parts.h"

#include <nlohmann/json.hpp>

#include "daemon/tenant/member.h"
#include "src/base/saturating.h"

namespace harmonaize::daemon {

using nlohmann::json;

const char* StateName(Communicator::State state) {
  switch (state) {
    case Communicator::State::kReady: return "ready";
    case Communicator::State::kRevoked: return "revoked";
    case Communicator::State::kBroken: return "broken";
  }
  return "unknown";
}

json DescribeWaiting(const WaitingOperations& waiting) {
  json list = json::array();
  for (const WaitingOperation& operation : waiting.listed) {
    list.push_back({{"operation", operation.operation},
                    {"for_seconds", operation.for_seconds},
                    {"missing_ranks", operation.missing_ranks}});
  }
  return list;
}

void DescribeKind(const Communicator& communicator, json* description) {
  bool carries = false;
  uint64_t calls = 0;
  uint64_t bytes = 0;
  uint64_t nanoseconds = 0;
  for (int rank = 0; rank < communicator.ranks(); ++rank) {
    const Member* const member = communicator.member(rank);
    if (member == nullptr) continue;
    const StockNcclSlot& told = member->slot->stock_nccl;
    carries = carries || told.carries.load(std::memory_order_relaxed) != 0;
    calls = AddUpTo(calls, told.calls.load(std::memory_order_relaxed));
    bytes = AddUpTo(bytes, told.bytes.load(std::memory_order_relaxed));
    nanoseconds = AddUpTo(nanoseconds, told.nanoseconds.load(std::memory_order_relaxed));
  }
  (*description)["kind"] = carries ? "cuda (stock NCCL)" : "host";
  if (!carries) return;
  (*description)["stock_nccl"] = {
      {"calls", calls}, {"bytes", bytes}, {"seconds", static_cast<double>(nanoseconds) * 1e-9}};
}

}  // namespace harmonaize::daemon
