#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/check/check.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// Blocks that go from one host to another by one path, in one direction.
struct Load {
  int from_host = 0;
  int to_host = 0;
  int path = -1;        ///< As in Step.
  uint64_t blocks = 0;  ///< Number of blocks, and of messages: each carries one block, 1/pieces of
                        ///< `count` elements.
  /// Fewest and most messages that must have arrived before one of these can be sent. Lower bounds;
  /// 0 where the algorithm does not say.
  int earliest = 0;
  int latest = 0;
  /// Fewest messages, each waiting for the one ahead of it, that follow one of these. A lower
  /// bound.
  int following = 0;

  /// Returns whether the same blocks go the same way. The bounds above are ignored: Summarize does
  /// not count them from steps.
  friend bool operator==(const Load& a, const Load& b) {
    return a.from_host == b.from_host && a.to_host == b.to_host && a.path == b.path &&
           a.blocks == b.blocks;
  }
};

/// The cost of a schedule, without its steps: enough for a cost model or a simulator of flows.
struct Summary {
  int pieces = 1;                  ///< A block is 1/pieces of `count` elements.
  std::vector<Load> loads;         ///< By from_host, then to_host, then path; no empty ones.
  std::vector<HostTraffic> hosts;  ///< By host number.
  /// Messages on the longest chain in which each can be sent only after the one ahead of it has
  /// arrived. It determines the latency, however many pieces follow each other.
  int dependent_messages = 0;

  friend bool operator==(const Summary&, const Summary&) = default;
};

/// Counts the summary from the steps. Outline::Summarize gives the same without them. Requires: the
/// schedule has passed Check.
Summary Summarize(const Schedule& schedule);

/// Adds up loads, in any order and number; a helper of the outlines.
class LoadTable {
 public:
  void Add(int from_host, int to_host, int path, uint64_t blocks) {
    Add({from_host, to_host, path, blocks});
  }
  /// Adds messages that wait for, and are waited for by, as many others as the load says.
  void Add(const Load& load);
  /// Returns the loads, sorted and merged.
  std::vector<Load> Take();

 private:
  void Merge();

  std::vector<Load> loads_;
  size_t merged_ = 0;  // of loads_: the number after the last Merge
};

}  // namespace harmonaize
