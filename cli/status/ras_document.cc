#include "cli/status/ras_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <set>
#include <utility>

#include "src/base/collective.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

using nlohmann::ordered_json;

/// NCCL's result for a communicator that was broken.
constexpr int kNcclRemoteError = 6;
/// Most missing ranks that are listed in all: it bounds the document, whatever the daemon says.
constexpr uint64_t kMostMissing = 65536;

/// The same for all ranks: the daemon knows of no devices, and tells nobody of hosts.
ordered_json WhereIs(const Json& rank, uint64_t number) {
  const Json& process = At(rank, "process");
  return {{"rank", number},
          {"host", "unknown"},
          {"pid", process.is_number_integer() ? process.get<int64_t>() : -1},
          {"cuda_dev", -1},
          {"nvml_dev", -1}};
}

ordered_json RankOf(const Json& communicator, const Json& rank) {
  ordered_json one = WhereIs(rank, CountAt(rank, "rank"));
  const std::string state = TextAt(communicator, "state");
  one["status"] = {{"init_state", 0},
                   {"async_error", state == "broken" ? kNcclRemoteError : 0},
                   {"finalize_called", false},
                   {"destroy_flag", false},
                   {"abort_flag", state == "revoked"}};
  ordered_json counts = ordered_json::object();
  for (int kind = 0; kind < kCollectiveCount; ++kind) {
    const std::string name(CollectiveName(static_cast<Collective>(kind)));
    counts[name] = CountAt(At(rank, "counts"), name.c_str());
  }
  one["collective_counts"] = std::move(counts);
  return one;
}

/// Returns the ranks that the verdict blames for this.
std::set<uint64_t> RanksThatAre(const char* what, const Json& communicator) {
  std::set<uint64_t> ranks;
  const Json& stuck = At(communicator, "stuck");
  for (const Json& root : ListAt(stuck, "roots")) {
    if (TextAt(root, "class") == what) ranks.insert(CountAt(root, "rank"));
  }
  return ranks;
}

ordered_json CommunicatorOf(const Json& communicator, uint64_t* missing_left) {
  const uint64_t size = CountAt(communicator, "size");
  std::set<uint64_t> here;
  ordered_json ranks = ordered_json::array();
  for (const Json& rank : ListAt(communicator, "ranks")) {
    here.insert(CountAt(rank, "rank"));
    ranks.push_back(RankOf(communicator, rank));
  }
  const std::set<uint64_t> dead = RanksThatAre("dead", communicator);
  const std::set<uint64_t> silent = RanksThatAre("daemon_unreachable", communicator);
  ordered_json missing = ordered_json::array();
  for (uint64_t rank = 0; rank<size&& * missing_left> 0; ++rank) {
    if (here.contains(rank)) continue;
    --*missing_left;
    ordered_json one = WhereIs(Json(), rank);
    one["status"] = {{"unresponsive", silent.contains(rank)},
                     {"considered_dead", dead.contains(rank)}};
    missing.push_back(std::move(one));
  }
  return {{"hash", "0x" + TextAt(communicator, "id")},
          {"secondary_hash", "0x0:0x0"},
          {"size", size},
          {"ranks_count", ranks.size()},
          {"missing_ranks_count", missing.size()},
          {"ranks", std::move(ranks)},
          {"missing_ranks", std::move(missing)}};
}

std::string LocalTime(double unix_seconds) {
  const auto seconds = static_cast<std::time_t>(std::clamp(unix_seconds, 0.0, 1e11));
  std::tm local{};
  char text[32];
  if (localtime_r(&seconds, &local) == nullptr) return "";
  return {text, std::strftime(text, sizeof text, "%F %T", &local)};
}

}  // namespace

std::string RasDocument(const std::vector<Json>& flights, double unix_seconds,
                        double took_seconds) {
  ordered_json communicators = ordered_json::array();
  uint64_t missing_left = kMostMissing;
  for (const Json& flight : flights) {
    for (const Json& communicator : ListAt(flight, "communicators")) {
      communicators.push_back(CommunicatorOf(communicator, &missing_left));
    }
  }
  const ordered_json document = {
      {"nccl_version", "2.28.9"},
      {"cuda_runtime_version", -1},
      {"cuda_driver_version", -1},
      {"timestamp", LocalTime(unix_seconds)},
      {"communicators_count", communicators.size()},
      {"communicators", std::move(communicators)},
      {"ras",
       {{"collection_time_sec", std::round(took_seconds * 1e3) * 1e-3}, {"timeouts_count", 0}}}};
  return JsonText(document, 2) + "\n";
}

}  // namespace harmonaize
