#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/check/check.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// What goes from one host to another by one path, in one direction.
struct Load {
  int from_host = 0;
  int to_host = 0;
  int path = -1;        ///< As in Step.
  uint64_t blocks = 0;  ///< And messages: each carries one block, 1/pieces of `count` elements.
  /// How many messages have to have come before one of these can be sent: the fewest and the most.
  /// At least so many; 0 where the algorithm does not say.
  int earliest = 0;
  int latest = 0;
  /// The fewest messages, each waiting for the one ahead of it, that one of these has behind it.
  /// At least so many.
  int following = 0;

  /// Whether the same goes the same way. The bounds above are not looked at: Summarize does not
  /// count them from steps.
  friend bool operator==(const Load& a, const Load& b) {
    return a.from_host == b.from_host && a.to_host == b.to_host && a.path == b.path &&
           a.blocks == b.blocks;
  }
};

/// What a schedule costs, without its steps: enough for a cost model or a simulator of flows.
struct Summary {
  int pieces = 1;                  ///< A block is 1/pieces of `count` elements.
  std::vector<Load> loads;         ///< By from_host, then to_host, then path; no empty ones.
  std::vector<HostTraffic> hosts;  ///< By host number.
  /// Messages on the longest chain of which each cannot be sent before the one ahead of it has
  /// come: what latency is paid for, however many pieces follow each other.
  int dependent_messages = 0;

  friend bool operator==(const Summary&, const Summary&) = default;
};

/// Counted from the steps. Outline::Summarize gives the same without them. The schedule must have
/// passed Check.
Summary Summarize(const Schedule& schedule);

/// Adds up loads, in any order and number; the helper of the outlines.
class LoadTable {
 public:
  void Add(int from_host, int to_host, int path, uint64_t blocks) {
    Add({from_host, to_host, path, blocks});
  }
  /// Messages that wait for, and are waited for by, as many others as the load says.
  void Add(const Load& load);
  /// Sorted and merged.
  std::vector<Load> Take();

 private:
  void Merge();

  std::vector<Load> loads_;
  size_t merged_ = 0;  // of loads_, how many were there after the last Merge
};

}  // namespace harmonaize
