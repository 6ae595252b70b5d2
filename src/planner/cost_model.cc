#include "src/planner/cost_model.h"

#include <algorithm>

namespace harmonaize {
namespace {

// Two hosts' worth of connections are hashed often, a million connections not at all: their sums
// are near what is expected.
constexpr size_t kHashedConnections = 100000;
constexpr size_t kHashedEdges = 200000;
constexpr size_t kMostDraws = 64;
constexpr size_t kLeastDraws = 4;

/// Without those that another edge outlasts at any size.
std::vector<Footprint::Busy> LastOnes(const FabricModel& model, const std::vector<EdgeLoad>& edges,
                                      const NetworkCosts& costs) {
  std::vector<Footprint::Busy> busy;
  for (size_t e = 0; e < edges.size(); ++e) {
    if (edges[e].blocks <= 0) continue;
    const int edge = static_cast<int>(e);
    busy.push_back({edge, edges[e].blocks / (model.BytesPerSecond(edge) * costs.payload_share),
                    edges[e].earliest + edges[e].following});
  }
  std::stable_sort(busy.begin(), busy.end(), [](const auto& a, const auto& b) {
    return a.seconds_per_byte != b.seconds_per_byte ? a.seconds_per_byte > b.seconds_per_byte
                                                    : a.waits > b.waits;
  });
  size_t kept = 0;
  for (const Footprint::Busy& one : busy) {
    if (kept == 0 || one.waits > busy[kept - 1].waits) busy[kept++] = one;
  }
  busy.resize(kept);
  return busy;
}

size_t DrawsFor(size_t connections, size_t edges) {
  const size_t draws = std::min(kHashedConnections / std::max<size_t>(connections, 1),
                                kHashedEdges / std::max<size_t>(edges, 1));
  return std::clamp(draws, kLeastDraws, kMostDraws);
}

/// What each host's NICs carry together, by host: out and in.
struct HostRates {
  std::vector<double> out;
  std::vector<double> in;
};
HostRates RatesOfHosts(const FabricModel& model) {
  HostRates rates;
  for (const int node : model.fabric().Hosts()) {
    double out = 0;
    double in = 0;
    for (const Nic& nic : model.fabric().nodes[static_cast<size_t>(node)].nics) {
      const Link& link = model.fabric().links[static_cast<size_t>(nic.link)];
      const size_t direction = link.ends[0].node == node ? 0 : 1;
      out += link.bytes_per_second[direction];
      in += link.bytes_per_second[1 - direction];
    }
    rates.out.push_back(out);
    rates.in.push_back(in);
  }
  return rates;
}

void CountMessages(const std::vector<Load>& loads, size_t hosts, Footprint* footprint) {
  std::vector<uint64_t> messages(hosts, 0);
  std::vector<uint64_t> blocks(hosts, 0);
  for (const Load& load : loads) {
    // Blocks of one turn are neighbours, and go as one message.
    const uint64_t turns = static_cast<uint64_t>(load.latest - load.earliest) + 1;
    for (const int host : {load.from_host, load.to_host}) {
      messages[static_cast<size_t>(host)] += std::min(load.blocks, turns);
      blocks[static_cast<size_t>(host)] += load.blocks;
    }
  }
  footprint->messages = *std::max_element(messages.begin(), messages.end());
  footprint->message_blocks = *std::max_element(blocks.begin(), blocks.end());
}

}  // namespace

Footprint MakeFootprint(const FabricModel& model, const Summary& summary, LoadSpread* spread,
                        const NetworkCosts& costs) {
  Footprint footprint{.pieces = summary.pieces, .dependent_messages = summary.dependent_messages};
  for (const HostTraffic& host : summary.hosts) {
    footprint.memory_blocks = std::max(footprint.memory_blocks, host.read + host.written);
  }
  CountMessages(summary.loads, static_cast<size_t>(model.hosts()), &footprint);
  const HostRates rates = RatesOfHosts(model);
  double slowest = 0;
  for (const Load& load : summary.loads) {
    const double rate = std::min(rates.out[static_cast<size_t>(load.from_host)],
                                 rates.in[static_cast<size_t>(load.to_host)]);
    slowest = slowest == 0 ? rate : std::min(slowest, rate);
  }
  if (slowest > 0) footprint.fill_seconds_per_byte = 1 / (slowest * costs.payload_share);
  footprint.message_latency =
      costs.message_seconds + spread->MeanLatency(summary.loads, costs.link_seconds);
  const size_t connections = spread->Connections(summary.loads);
  if (connections > kHashedConnections || !spread->IsHashed(summary.loads)) {
    footprint.draws.push_back(LastOnes(model, spread->Expected(summary.loads), costs));
    return footprint;
  }
  const size_t draws = DrawsFor(connections, static_cast<size_t>(model.edges()));
  for (size_t draw = 0; draw < draws; ++draw) {
    footprint.draws.push_back(LastOnes(model, spread->Hashed(summary.loads, draw), costs));
  }
  return footprint;
}

Prediction Predict(const Footprint& footprint, uint64_t bytes, int pieces,
                   const NetworkCosts& costs) {
  Prediction prediction;
  const double block = static_cast<double>(bytes) / footprint.pieces;
  const double hop = block / pieces * footprint.fill_seconds_per_byte;
  double worst = -1;
  for (const std::vector<Footprint::Busy>& draw : footprint.draws) {
    double longest = 0;
    for (const Footprint::Busy& busy : draw) {
      const double carried = block * busy.seconds_per_byte;
      const double seconds = carried + busy.waits * hop;
      if (seconds > worst) {
        worst = seconds;
        prediction.busiest_edge = busy.edge;
      }
      longest = std::max(longest, seconds);
    }
    prediction.network += longest;
  }
  if (!footprint.draws.empty()) prediction.network /= static_cast<double>(footprint.draws.size());
  prediction.latency = footprint.dependent_messages * footprint.message_latency;
  prediction.fill = footprint.dependent_messages * hop;
  prediction.memory =
      static_cast<double>(footprint.memory_blocks) * block / costs.memory_bytes_per_second;
  const double chunks = static_cast<double>(footprint.message_blocks) * block /
                        static_cast<double>(costs.chunk_bytes);
  const double messages = static_cast<double>(footprint.messages) * pieces;
  prediction.handling = std::max(messages, chunks) * costs.handling_seconds;
  const double moving = std::max(prediction.network, prediction.fill);
  prediction.seconds =
      prediction.latency + std::max(moving, std::max(prediction.memory, prediction.handling));
  return prediction;
}

}  // namespace harmonaize
