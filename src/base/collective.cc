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

bool Reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kReduceScatter;
}

bool HasRoot(Collective collective) {
  return collective == Collective::kReduce || collective == Collective::kBroadcast ||
         collective == Collective::kGather || collective == Collective::kScatter;
}

BufferBlocks BlocksOf(Collective collective, int ranks, int rank, int root) {
  const auto all = static_cast<uint64_t>(ranks);
  const bool at_root = rank == root;
  switch (collective) {
    case Collective::kAllReduce: return {1, 1};
    case Collective::kReduce: return {1, at_root ? 1u : 0u};
    case Collective::kBroadcast: return {at_root ? 1u : 0u, 1};
    case Collective::kAllGather: return {1, all};
    case Collective::kReduceScatter: return {all, 1};
    case Collective::kAllToAll: return {all, all};
    case Collective::kGather: return {1, at_root ? all : 0};
    case Collective::kScatter: return {at_root ? all : 0, 1};
    case Collective::kSend: return {1, 0};
    case Collective::kReceive: return {0, 1};
  }
  return {};
}

}  // namespace harmonaize
