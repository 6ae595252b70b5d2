#include "src/planner/cost_model.h"

#include <algorithm>
#include <map>

namespace harmonaize {
namespace {

// Connections that all draws of the routers' hashes together may hash. The sums of more connections
// are near the expected ones, so no hash is drawn for them.
constexpr size_t kHashedConnections = 100000;
// Edges on which all draws together may lay loads.
constexpr size_t kHashedEdges = 200000;
// Most draws of one footprint: a few connections need many for a steady mean.
constexpr size_t kMostDraws = 64;
// Fewest draws of one footprint, even if the two bounds above allow fewer.
constexpr size_t kLeastDraws = 4;

/// Returns the edges that can be the last to finish, without those that another edge outlasts at
/// any size.
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

/// Returns whether each load has the same number of blocks in every turn, as in a ring.
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
  std::map<int, Footprint::Messages> by_host;
  for (const Load& load : summary.loads) {
    const auto turns = static_cast<uint64_t>(load.latest - load.earliest) + 1;
    for (const int host : {load.from_host, load.to_host}) {
      by_host[host].blocks += load.blocks;
      by_host[host].packets += std::min(load.blocks, turns);
    }
  }
  for (const auto& [host, messages] : by_host) {
    footprint->of_a_host.blocks = std::max(footprint->of_a_host.blocks, messages.blocks);
    footprint->of_a_host.packets = std::max(footprint->of_a_host.packets, messages.packets);
    footprint->of_all.blocks += messages.blocks;
    footprint->of_all.packets += messages.packets;
  }
}

}  // namespace

Footprint MakeFootprint(const FabricModel& model, const Summary& summary, LoadSpread* spread,
                        const NetworkCosts& costs) {
  Footprint footprint{.pieces = summary.pieces, .dependent_messages = summary.dependent_messages};
  CountMemory(summary, &footprint);
  footprint.steady = IsSteady(summary);
  footprint.balanced = spread->IsBalanced(summary.loads);
  CountMessages(summary, &footprint);
  const MessageTimes times = spread->TimesOfMessages(summary.loads);
  // If all turns are alike, the slowest pair holds up the others.
  footprint.fill_seconds_per_byte =
      (footprint.steady ? times.slowest : times.mean) / costs.payload_share;
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

namespace {

// Added to the number of parts before the idle time is divided by it. With few parts there is
// little for an urgent one to wait behind, so they must not count in full.
constexpr double kIdleOffset = 9;
// Fewest and most parts that PartsAtOnce returns.
constexpr int kLeastAtOnce = 4;
constexpr int kMostAtOnce = 16;
// Fewest parts at once where each of several ways needs some: docs/planning.md.
constexpr int kLeastBalanced = 12;

/// Returns the bytes that memory reads and writes for the messages themselves: none where they are
/// the data as it lies in memory.
double CodedBytes(double messages, double message_bytes, double wire_share) {
  return wire_share < 1 ? messages * message_bytes : 0;
}

/// Returns the seconds for one part of a block, which is a message of so many bytes: over the wire,
/// in at both ends, and through memory.
double SecondsOfHop(const Footprint& footprint, double part, const NetworkCosts& costs,
                    double wire_share) {
  const double memory_bytes =
      footprint.memory_blocks_per_message * part / wire_share + CodedBytes(1, part, wire_share);
  return part * footprint.fill_seconds_per_byte + memory_bytes / costs.memory_bytes_per_second +
         costs.WireSeconds(2 * part);
}

/// Returns the time that messages take on the busiest host, or on the processors that all share.
template <typename SecondsOf>
double OfProcessors(const Footprint& footprint, const NetworkCosts& costs, SecondsOf seconds_of) {
  const double of_a_host = seconds_of(footprint.of_a_host);
  if (costs.shared_processors <= 0) return of_a_host;
  return std::max(of_a_host, seconds_of(footprint.of_all) / costs.shared_processors);
}

/// Returns the processor time for one block's messages: for each packet, or each chunk of a long
/// message, for their bytes, and for the offer and answer that precede a large message.
double HandlingOf(const Footprint& footprint, double block, int parts, const NetworkCosts& costs) {
  const double chunks = block / static_cast<double>(costs.chunk_bytes);
  const double part = block / parts;
  return OfProcessors(footprint, costs, [&](const Footprint::Messages& messages) {
    const auto blocks = static_cast<double>(messages.blocks);
    const double handled = std::max(static_cast<double>(messages.packets) * parts, blocks * chunks);
    const double ahead = blocks * parts * costs.MessagesAhead(part);
    return handled * costs.HandlingSeconds(part) + costs.WireSeconds(blocks * block) +
           ahead * costs.handling_seconds;
  });
}

/// Returns the time until a part has gone from one host to the next, without that of its bytes.
double LatencyOfHop(const Footprint& footprint, double part, const NetworkCosts& costs) {
  return footprint.message_latency * (1 + costs.MessagesAhead(part));
}

/// Adds the other terms up. A link's credit shortens what goes over it, but never below what its
/// rate allows; hosts have no credit.
void AddUp(double credit_seconds, Prediction* prediction) {
  const double of_hosts =
      std::max(std::max(prediction->memory, prediction->handling), prediction->row);
  const double links = std::max(
      prediction->network,
      prediction->latency + std::max(prediction->network + prediction->fill - credit_seconds, 0.0));
  const double hosts =
      prediction->latency + of_hosts + std::max(prediction->fill - credit_seconds, 0.0);
  prediction->seconds = std::max(links, hosts);
  prediction->credit = prediction->latency + std::max(prediction->network, of_hosts) +
                       prediction->fill - prediction->seconds;
}

}  // namespace

int PartsAtOnce(const Footprint& footprint, uint64_t bytes, int parts, const NetworkCosts& costs,
                double wire_share) {
  const double part = static_cast<double>(bytes) / footprint.pieces / parts * wire_share;
  double busy = 0;
  for (const std::vector<Footprint::Busy>& draw : footprint.draws) {
    if (!draw.empty()) busy = std::max(busy, part * draw[0].seconds_per_byte);
  }
  busy = std::max(busy, OfProcessors(footprint, costs, [&](const Footprint::Messages& messages) {
                    return costs.WireSeconds(static_cast<double>(messages.blocks) * part);
                  }));
  const double row =
      footprint.dependent_messages *
      (LatencyOfHop(footprint, part, costs) + SecondsOfHop(footprint, part, costs, wire_share));
  if (busy <= 0 || 1 + 2 * row / busy >= kMostAtOnce) return kMostAtOnce;
  const int least = footprint.balanced ? kLeastBalanced : kLeastAtOnce;
  return std::max(least, 1 + static_cast<int>(2 * row / busy));
}

Prediction Predict(const Footprint& footprint, uint64_t bytes, int parts, const NetworkCosts& costs,
                   double wire_share) {
  Prediction prediction;
  const double data = static_cast<double>(bytes) / footprint.pieces;
  const double block = data * wire_share;  // as it is sent
  const double hop = SecondsOfHop(footprint, block / parts, costs, wire_share);
  const double latency = LatencyOfHop(footprint, block / parts, costs);
  const int row = footprint.dependent_messages;
  double worst = -1;
  double longest_row = 0;
  for (const std::vector<Footprint::Busy>& draw : footprint.draws) {
    double longest = 0;
    double waits = 0;
    for (const Footprint::Busy& busy : draw) {
      const double carried = block * busy.seconds_per_byte;
      // In a ring, the row of messages itself keeps the edges busy; elsewhere it comes on top.
      const double in_row =
          footprint.steady ? std::max(row * hop - carried, 0.0) : std::max(busy.waits, row) * hop;
      const double idle = in_row + carried * costs.idle_parts / (parts + kIdleOffset);
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
  prediction.latency = row * latency;
  if (costs.shared_processors > 0) {
    // Each rank requests the operation and is told of its end: as much work as a message.
    prediction.latency += footprint.ranks * costs.handling_seconds / costs.shared_processors;
  }
  const double memory_bytes =
      static_cast<double>(footprint.memory_blocks) * data +
      CodedBytes(static_cast<double>(footprint.of_a_host.blocks), block, wire_share);
  prediction.memory = memory_bytes / costs.memory_bytes_per_second;
  prediction.handling = HandlingOf(footprint, block, parts, costs);
  const int at_once = PartsAtOnce(footprint, bytes, parts, costs, wire_share);
  if (parts > at_once) {
    prediction.row = row * (latency + hop) * parts / at_once;
  }
  AddUp(costs.credit_seconds, &prediction);
  return prediction;
}

}  // namespace harmonaize
