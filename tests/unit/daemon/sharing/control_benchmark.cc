// Times what the controller of a cluster does in one interval: it reads what the daemons of all
// hosts tell, shares out the links, and writes what each is told. Ten intervals are one second.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
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

/// Two tenants with so many communicators each, which send from half of the hosts to the other
/// half, over all of one host's rails.
std::vector<std::vector<std::byte>> TrafficOfMany(int hosts, uint64_t communicators,
                                                  uint64_t rails) {
  std::vector<std::vector<std::byte>> messages;
  for (int host = 0; host < hosts; ++host) {
    TrafficMessage traffic{.fabric = 1, .host = host};
    for (uint64_t rail = 0; rail < rails; ++rail) {
      TrafficFlow flow{.peer = (host + hosts / 2) % hosts,
                       .rail = rail,
                       .bytes_per_second = 1e9,
                       .busy = 1,
                       .arrival_queue = 1e-5};
      for (uint64_t job = 0; job < 2 * communicators; ++job) {
        const auto tenant = static_cast<uint32_t>(job % 2);
        flow.jobs.push_back({tenant, job, 1, 5e8 / static_cast<double>(communicators), 0});
      }
      traffic.flows.push_back(std::move(flow));
    }
    for (uint64_t job = 0; job < 2 * communicators; ++job) {
      traffic.terms.push_back({static_cast<uint32_t>(job % 2), job, 1 + job, 0, 0, 1e9});
      if (host == 0) traffic.homes.push_back(job);
    }
    messages.push_back(EncodeMessage(traffic));
  }
  return messages;
}

void RunIntervals(benchmark::State* measured, const std::vector<std::vector<std::byte>>& messages) {
  benchmark::State& state = *measured;
  const auto hosts = static_cast<int>(messages.size());
  const std::shared_ptr<const FabricModel> model = FatTreeOf(hosts);
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

/// Arguments: hosts, hosts of a job, peers of a host.
void BM_ControllerInterval(benchmark::State& state) {
  RunIntervals(&state, TrafficOf(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                                 static_cast<int>(state.range(2))));
}

/// Arguments: hosts, communicators of each of two tenants, rails.
void BM_ManyCommunicators(benchmark::State& state) {
  RunIntervals(
      &state, TrafficOfMany(static_cast<int>(state.range(0)), static_cast<uint64_t>(state.range(1)),
                            static_cast<uint64_t>(state.range(2))));
}

BENCHMARK(BM_ManyCommunicators)
    ->Args({4, 1, 1})
    ->Args({4, 128, 1})
    ->Args({4, 1000, 1})
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ControllerInterval)
    ->Args({16, 4, 2})
    ->Args({128, 32, 4})
    ->Args({1024, 32, 4})
    ->Args({1024, 128, 8})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace harmonaize::daemon

BENCHMARK_MAIN();
