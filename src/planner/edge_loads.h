#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "src/planner/fabric_model.h"
#include "src/schedule/ir/summary.h"

namespace harmonaize {

/// Blocks that one directed edge carries, and how many messages come before and after them.
struct EdgeLoad {
  double blocks = 0;  ///< Blocks, as in Load.
  /// Fewest messages in a row before the edge's first message (earliest) and after its last one.
  int earliest = 0;
  int following = 0;

  void Add(double more, int more_earliest, int more_following);
};

/// The lanes that messages are dealt over, by sending and receiving host, and by Step::path >= 0.
using LaneTable = std::map<std::pair<int, int>, std::vector<std::vector<Lane>>>;

/// Seconds for a byte of a message between two hosts; the mean over the lanes it may be dealt to.
struct MessageTimes {
  double slowest = 0;  ///< Time of the pair of hosts with the longest one.
  double mean = 0;     ///< Mean over all blocks.
};

/// Lays the loads of a summary, whose hosts are those of the model, on edges. Messages without a
/// path are dealt out over the lanes of `use`; those with one over the lanes of `chosen`.
///
/// At each switch, spread traffic is divided in proportion to what each link, and the ways behind
/// it, can carry. A lane has enough connections for every way, and those of a narrow way always
/// have a backlog, so they get few messages.
///
/// The time is linear in the loads. Without a draw, hosts of one kind are laid together, and the
/// rest of the work is linear in the kinds of hosts and the edges.
class LoadSpread {
 public:
  LoadSpread(const FabricModel& model, PathUse use, const LaneTable* chosen = nullptr);

  /// Returns what each edge carries; where routers choose, the expected value.
  std::vector<EdgeLoad> Expected(const std::vector<Load>& loads);
  /// Returns what each edge carries if every connection (two NICs, and a path if any) takes the way
  /// that a hash of the connection and `draw` chooses, as routers do it.
  std::vector<EdgeLoad> Hashed(const std::vector<Load>& loads, uint64_t draw);

  /// Returns the mean latency of the links that a message crosses, over all blocks.
  double MeanLatency(const std::vector<Load>& loads, double unknown_link_seconds);
  /// Returns the times of messages at the links' nominal rates.
  MessageTimes TimesOfMessages(const std::vector<Load>& loads);
  /// Returns whether any lane leaves the choice among several ways to a single hash of the routers.
  bool IsHashed(const std::vector<Load>& loads) { return HasChoice(loads, /*spread=*/false); }
  /// Returns whether any lane is spread over several ways.
  bool IsBalanced(const std::vector<Load>& loads) { return HasChoice(loads, /*spread=*/true); }
  /// Returns the number of connections that the loads need: their lanes in all.
  size_t Connections(const std::vector<Load>& loads);
  /// Returns whether any two lanes that have been asked for so far have unequal weights.
  bool Weighs() const;

 private:
  const std::vector<Lane>& LanesOf(const Load& load);
  bool HasChoice(const std::vector<Load>& loads, bool spread);
  double SecondsOfByte(const Load& load);
  void AddMiddle(const FabricModel::Way& way, const Lane& lane, const EdgeLoad& load,
                 std::vector<EdgeLoad>* edges);
  void SpreadInjected(std::vector<EdgeLoad>* edges);

  const FabricModel& model_;
  PathUse use_;
  const LaneTable* chosen_;
  std::vector<std::vector<Lane>> lanes_of_kinds_;
  std::map<std::tuple<bool, int, int>, EdgeLoad> injected_;  // by Lane::spread, target and node
};

/// Returns the way that a hash of the connection and `draw` gives a lane; an explicit path's own
/// way.
Route HashedRoute(const FabricModel& model, int from, int to, const Lane& lane, uint64_t draw);

/// Returns the ways of a spread lane, each with its share of the traffic. If there are more than
/// `most`, the first `most` share all of it.
std::vector<std::pair<Route, double>> SpreadRoutes(const FabricModel& model, int from, int to,
                                                   const Lane& lane, size_t most);

}  // namespace harmonaize
