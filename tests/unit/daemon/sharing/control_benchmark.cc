// Times what the controller of a cluster does in one interval: it reads what the daemons of all
// hosts tell, shares out the links, and writes what each is told. Ten intervals are one second.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/cluster/messages/message.h"
#include "daemon/links/link_state.h"
#include "daemon/sharing/controller.h"
#include "src/planner/fabric_model.h"
#include "src/topology/fabric/fabric_file.h"
#include "src/topology/fabric/fat_tree.h"

namespace harmonaize::daemon {
namespace {

[[noreturn]] void Die(const Status& status) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

std::shared_ptr<const FabricModel> FatTreeOf(int hosts) {
  Result<std::string> text = FatTreeFile({.hosts = hosts});
  if (!text.ok()) Die(text.status());
  Result<FabricFile> file = ParseFabricFile(*text, "fat-tree");
  if (!file.ok()) Die(file.status());
  return std::make_shared<const FabricModel>(std::move(file->fabric));
}

/// Jobs of `hosts_per_job` hosts that lie `stride` apart, so that all of them cross the core; every
/// host sends to `peers` others of its job, as in trees.
std::vector<std::vector<std::byte>> TrafficOf(int hosts, int hosts_per_job, int peers) {
  const int jobs = hosts / hosts_per_job;
  std::vector<std::vector<std::byte>> messages;
  for (int host = 0; host < hosts; ++host) {
    const auto job = static_cast<uint32_t>(host % jobs);
    TrafficMessage traffic{.fabric = 1, .host = host};
    for (int peer = 1; peer <= peers; ++peer) {
      const double rate = 1e9 * (1 + job % 7);
      traffic.flows.push_back({.peer = (host + peer * jobs) % hosts,
                               .rail = 0,
                               .bytes_per_second = rate,
                               .busy = 1,
                               .arrival_queue = 1e-5,
                               .jobs = {{job, job, 1, rate}}});
    }
    if (host < jobs) traffic.homes.push_back(job);
    traffic.nics.push_back({0, 1e9, 1e9, 0});
    messages.push_back(EncodeMessage(traffic));
  }
  return messages;
}

/// Arguments: hosts, hosts of a job, peers of a host.
void BM_ControllerInterval(benchmark::State& state) {
  const auto hosts = static_cast<int>(state.range(0));
  const std::shared_ptr<const FabricModel> model = FatTreeOf(hosts);
  const std::vector<std::vector<std::byte>> messages =
      TrafficOf(hosts, static_cast<int>(state.range(1)), static_cast<int>(state.range(2)));
  LinkState links(model);
  Controller controller(model);
  double now_seconds = 0;
  size_t told_bytes = 0;
  for (auto _ : state) {
    now_seconds += LinkState::kIntervalSeconds;
    transport::PeerId peer = 0;
    for (const std::vector<std::byte>& message : messages) {
      const Result<ClusterMessage> traffic = DecodeMessage(message);
      links.Take(*traffic->As<TrafficMessage>(), now_seconds);
      controller.Take(++peer, *traffic->As<TrafficMessage>(), now_seconds);
    }
    links.Settle(now_seconds);
    for (const auto& [to, shares] : controller.Settle(links, now_seconds)) {
      told_bytes += EncodeMessage(shares).size();
    }
  }
  const auto intervals = static_cast<double>(state.iterations());
  state.counters["heard"] = static_cast<double>(messages.front().size());
  state.counters["told"] = static_cast<double>(told_bytes) / intervals / hosts;
}

BENCHMARK(BM_ControllerInterval)
    ->Args({16, 4, 2})
    ->Args({128, 32, 4})
    ->Args({1024, 32, 4})
    ->Args({1024, 128, 8})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace harmonaize::daemon

BENCHMARK_MAIN();
