#include "daemon/reports/communicator_parts.h"

#include <nlohmann/json.hpp>

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

}  // namespace harmonaize::daemon
