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

/// Whether each load has as much in every turn, as in a ring.
bool IsSteady(const Summary& summary) {
  const auto turns = static_cast<uint64_t>(summary.dependent_messages);
  return std::all_of(summary.loads.begin(), summary.loads.end(), [&](const Load& load) {
    return static_cast<uint64_t>(load.latest - load.earliest) + 1 == turns &&
           load.blocks % turns == 0;
  });
}

void CountMemory(const Summary& summary, Footprint* footprint) {
  for (const HostTraffic& host : summary.hosts) {
    if (host.read + host.written <= footprint->memory_blocks) continue;
    footprint->memory_blocks = host.read + host.written;
    footprint->memory_blocks_per_message =
        static_cast<double>(footprint->memory_blocks) /
        static_cast<double>(std::max<uint64_t>({host.received, host.sent, 1}));
  }
}

void CountMessages(const Summary& summary, Footprint* footprint) {
  for (const HostTraffic& host : summary.hosts) {
    footprint->messages = std::max(footprint->messages, host.sent + host.received);
  }
}

}  // namespace

Footprint MakeFootprint(const FabricModel& model, const Summary& summary, LoadSpread* spread,
                        const NetworkCosts& costs) {
  Footprint footprint{.pieces = summary.pieces, .dependent_messages = summary.dependent_messages};
  CountMemory(summary, &footprint);
  footprint.steady = IsSteady(summary);
  CountMessages(summary, &footprint);
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
  // Of one piece of a block: over the wire, and through a host's memory.
  const double hop = block / pieces *
                     (footprint.fill_seconds_per_byte +
                      footprint.memory_blocks_per_message / costs.memory_bytes_per_second);
  const int row = footprint.dependent_messages;
  double worst = -1;
  double longest_row = 0;
  for (const std::vector<Footprint::Busy>& draw : footprint.draws) {
    double longest = 0;
    double waits = 0;
    for (const Footprint::Busy& busy : draw) {
      const double carried = block * busy.seconds_per_byte;
      // A ring's row of messages is what keeps its edges busy; elsewhere it comes on top.
      const double idle =
          footprint.steady ? std::max(row * hop - carried, 0.0) : std::max(busy.waits, row) * hop;
      if (carried + idle > worst) {
        worst = carried + idle;
        prediction.busiest_edge = busy.edge;
      }
      if (carried + idle <= longest + waits) continue;
      longest = carried;
      waits = idle;
    }
    prediction.network += longest;
    longest_row += waits;
  }
  if (!footprint.draws.empty()) {
    prediction.network /= static_cast<double>(footprint.draws.size());
    prediction.fill = longest_row / static_cast<double>(footprint.draws.size());
  }
  prediction.latency = row * footprint.message_latency;
  prediction.memory =
      static_cast<double>(footprint.memory_blocks) * block / costs.memory_bytes_per_second;
  const double chunks =
      static_cast<double>(footprint.messages) * block / static_cast<double>(costs.chunk_bytes);
  const double messages = static_cast<double>(footprint.messages) * pieces;
  prediction.handling = std::max(messages, chunks) * costs.handling_seconds;
  const double busy =
      std::max(prediction.network, std::max(prediction.memory, prediction.handling));
  prediction.seconds = prediction.latency + busy + prediction.fill;
  return prediction;
}

}  // namespace harmonaize
