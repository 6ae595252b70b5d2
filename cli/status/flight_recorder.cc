#include "cli/status/flight_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/collective.h"

namespace harmonaize {
namespace {

using nlohmann::ordered_json;

/// Most ranks of a communicator that a file lists, whatever the daemon says.
constexpr uint64_t kMostRanks = 1 << 16;

/// What PyTorch calls our types: c10::toString(ScalarType).
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kTypes = {
    {{"int8", "Char"},
     {"uint8", "Byte"},
     {"int32", "Int"},
     {"uint32", "UInt32"},
     {"int64", "Long"},
     {"uint64", "UInt64"},
     {"float16", "Half"},
     {"float32", "Float"},
     {"float64", "Double"},
     {"bfloat16", "BFloat16"},
     {"float8e4m3", "Float8_e4m3fn"},
     {"float8e5m2", "Float8_e5m2"}}};

std::string TypeOf(const Json& operation) {
  const std::string type = TextAt(operation, "type");
  const auto* const found = std::find_if(kTypes.begin(), kTypes.end(),
                                         [&](const auto& one) { return one.first == type; });
  return std::string(found == kTypes.end() ? "Undefined" : found->second);
}

/// Returns PyTorch's name of an operation, such as "nccl:all_reduce", as its analyzer parses it.
std::string ProfilingName(Collective collective, uint64_t rank, uint64_t peer) {
  switch (collective) {
    case Collective::kAllReduce: return "nccl:all_reduce";
    case Collective::kReduce: return "nccl:reduce";
    case Collective::kBroadcast: return "nccl:broadcast";
    case Collective::kAllGather: return "nccl:_all_gather_base";
    case Collective::kReduceScatter: return "nccl:_reduce_scatter_base";
    case Collective::kAllToAll: return "nccl:all_to_all";
    case Collective::kGather: return "nccl:gather";
    case Collective::kScatter: return "nccl:scatter";
    case Collective::kSend: return fmt::format("nccl:send {}->{}", rank, peer);
    case Collective::kReceive: return fmt::format("nccl:recv {}<-{}", rank, peer);
  }
  return "";
}

ordered_json Sizes(uint64_t blocks, uint64_t count) {
  return ordered_json::array({ordered_json::array({blocks * count})});
}

/// Returns whether PyTorch has a tensor on both sides at every rank, whatever the rank uses of it.
bool IsSameOnBothSides(Collective collective) {
  return IsPointToPoint(collective) || collective == Collective::kBroadcast ||
         collective == Collective::kReduce;
}

ordered_json EntryOf(const Json& communicator, const Json& rank, const Json& operation,
                     size_t number, uint64_t pairs_before) {
  const Result<Collective> found = FindCollective(TextAt(operation, "collective"));
  const Collective collective = found.ok() ? *found : Collective::kAllReduce;
  const bool pair = IsPointToPoint(collective);
  const uint64_t own = CountAt(rank, "rank");
  const uint64_t count = CountAt(operation, "count");
  const int size = static_cast<int>(std::min(CountAt(communicator, "size"), kMostRanks));
  const uint64_t peer_or_root = CountAt(operation, pair ? "peer" : "root");
  const BufferBlocks blocks =
      BlocksOf(collective, size, static_cast<int>(std::min(own, kMostRanks)),
               static_cast<int>(std::min(peer_or_root, kMostRanks)));
  const std::string name = TextAt(communicator, "name");
  const bool started = TextAt(operation, "state") == "started";
  const uint64_t least = IsSameOnBothSides(collective) ? 1 : 0;
  const ordered_json type = ordered_json::array({TypeOf(operation)});
  return {{"record_id", number},
          {"pg_id", 0},
          {"process_group", {TextAt(communicator, "id"), name.empty() ? "undefined" : name}},
          {"collective_seq_id", pair ? 0 : CountAt(operation, "sequence") + 1},
          {"p2p_seq_id", pair ? CountAt(rank, "posted") + pairs_before + 1 : 0},
          {"op_id", number + 1},
          {"profiling_name", ProfilingName(collective, own, peer_or_root)},
          {"time_created_ns", CountAt(operation, "posted_unix_ns")},
          {"input_sizes", Sizes(std::max<uint64_t>(blocks.send, least), count)},
          {"input_dtypes", type},
          {"output_sizes", Sizes(std::max<uint64_t>(blocks.receive, least), count)},
          {"output_dtypes", type},
          {"state", started ? "started" : "scheduled"},
          {"time_discovered_started_ns",
           started ? ordered_json(CountAt(operation, "ready_unix_ns")) : ordered_json(nullptr)},
          {"time_discovered_completed_ns", nullptr},
          {"retired", false},
          {"timeout_ms", 0},
          {"is_p2p", pair},
          {"thread_name", ""},
          {"thread_id", ""},
          {"frames", ordered_json::array()}};
}

/// Returns "[0, 1, 2]": PyTorch has the ranks as a text.
std::string RanksText(uint64_t size) {
  std::string text = "[";
  for (uint64_t rank = 0; rank < std::min(size, kMostRanks); ++rank) {
    text += (rank > 0 ? ", " : "") + std::to_string(rank);
  }
  return text + "]";
}

}  // namespace

ordered_json FlightRecorderDump(const Json& communicator, const Json& rank) {
  const std::string id = TextAt(communicator, "id");
  const std::string name = TextAt(communicator, "name");
  std::vector<const Json*> operations;
  for (const Json& operation : ListAt(rank, "operations")) operations.push_back(&operation);
  std::stable_sort(operations.begin(), operations.end(), [](const Json* a, const Json* b) {
    return CountAt(*a, "posted_unix_ns") < CountAt(*b, "posted_unix_ns");
  });
  ordered_json entries = ordered_json::array();
  uint64_t pairs = 0;
  for (const Json* const operation : operations) {
    entries.push_back(EntryOf(communicator, rank, *operation, entries.size(), pairs));
    if (entries.back().at("is_p2p") == true) ++pairs;
  }
  const uint64_t posted = CountAt(rank, "posted");
  ordered_json config;
  config[id] = {{"name", id},
                {"desc", name.empty() ? "undefined" : name},
                {"ranks", RanksText(CountAt(communicator, "size"))}};
  const ordered_json status = {
      {"last_enqueued_collective", posted},
      {"last_started_collective", std::min(posted, CountAt(communicator, "begun"))},
      {"last_completed_collective", CountAt(rank, "ended")}};
  return {{"version", "2.10"},
          {"pg_config", std::move(config)},
          {"pg_status", {{"0", status}}},
          {"entries", std::move(entries)}};
}

}  // namespace harmonaize
