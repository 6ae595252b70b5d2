#include "src/base/collective.h"

#include <array>

namespace harmonaize {

std::string_view CollectiveName(Collective collective) {
  static constexpr std::array<std::string_view, kCollectiveCount> kNames = {
      "AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter",
      "AlltoAll",  "Gather", "Scatter",   "Send",      "Recv"};
  const auto index = static_cast<size_t>(collective);
  return index < kNames.size() ? kNames[index] : "unknown";
}

}  // namespace harmonaize
