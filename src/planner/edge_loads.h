#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "src/planner/fabric_model.h"
#include "src/schedule/ir/summary.h"

namespace harmonaize {

/// What one directed edge carries.
struct EdgeLoad {
  double blocks = 0;  ///< As in Load.
  /// The fewest messages in a row before its first and after its last one.
  int earliest = 0;
  int following = 0;

  void Add(double more, int more_earliest, int more_following);
};

/// By sending and receiving host, and Step::path >= 0: the lanes that its messages are dealt over.
using LaneTable = std::map<std::pair<int, int>, std::vector<std::vector<Lane>>>;

/// What a byte of a message takes between two hosts, in the mean over the lanes it may be dealt.
struct MessageTimes {
  double slowest = 0;  ///< Between the hosts for which that is most.
  double mean = 0;     ///< Over all blocks.
};

/// Lays the loads of a summary, whose hosts are those of the model, on edges. Messages without a
/// path are dealt out over the lanes of `use`; those with one over the lanes of `chosen`.
///
/// What is spread is divided at each switch by what its links, and what lies behind them, carry:
/// the connections of a lane are so many that all ways have some, and those of a narrow way, which
/// always have a backlog, get few messages.
///
/// Time is linear in the loads, and without a draw in the kinds of hosts and the edges:
/// hosts of one kind are laid together.
class LoadSpread {
 public:
  LoadSpread(const FabricModel& model, PathUse use, const LaneTable* chosen = nullptr);

  /// What each edge carries; of what routers choose, the expectation.
  std::vector<EdgeLoad> Expected(const std::vector<Load>& loads);
  /// Where every connection (two NICs, and a path if any) is given its way by a hash of the
  /// connection and `draw`, as routers do it.
  std::vector<EdgeLoad> Hashed(const std::vector<Load>& loads, uint64_t draw);

  /// The mean latency of the links that a message crosses, over all blocks.
  double MeanLatency(const std::vector<Load>& loads, double unknown_link_seconds);
  /// By nominal rates.
  MessageTimes TimesOfMessages(const std::vector<Load>& loads);
  /// Whether any lane leaves its way to a single hash of the routers where there are several.
  bool IsHashed(const std::vector<Load>& loads) { return HasChoice(loads, /*spread=*/false); }
  /// Whether any lane is spread where there are several ways.
  bool IsBalanced(const std::vector<Load>& loads) { return HasChoice(loads, /*spread=*/true); }
  /// Lanes in all: connections that the loads need.
  size_t Connections(const std::vector<Load>& loads);
  /// Whether any two lanes that have been asked for so far have unequal weights.
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

/// The way that a hash of the connection and `draw` gives a lane; of an explicit path, its own.
Route HashedRoute(const FabricModel& model, int from, int to, const Lane& lane, uint64_t draw);

/// All ways of a lane that is spread, with what each has of its traffic; the first `most` of them,
/// where there are more, with all of it.
std::vector<std::pair<Route, double>> SpreadRoutes(const FabricModel& model, int from, int to,
                                                   const Lane& lane, size_t most);

/// A hash that is the same everywhere (splitmix64; Steele, Lea and Flood, 2014).
uint64_t MixBits(uint64_t value);

}  // namespace harmonaize
