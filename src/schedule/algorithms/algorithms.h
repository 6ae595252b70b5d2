#pragma once

#include <climits>
#include <span>
#include <string_view>
#include <vector>

#include "src/schedule/bounds/capacity_graph.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// Options of algorithms. Each algorithm looks at those that concern it.
struct AlgorithmOptions {
  /// Pieces for each part into which the algorithm divides a unit anyway. The algorithm's header
  /// tells how many pieces that makes in all.
  int pieces = 1;
  /// Host numbers, each once, along which rings, chains and trees go. Empty: ascending.
  std::vector<int> order = {};
  /// Groups of host numbers, each host in one; for algorithms of several levels.
  std::vector<std::vector<int>> groups = {};
  /// The fabric, for algorithms that pack trees into it; used only while the outline is made.
  const CapacityGraph* fabric = nullptr;
  /// Most trees that these algorithms may use for a unit.
  int most_trees = 64;
};

/// One line of the table of algorithms.
struct Algorithm {
  std::string_view name;      ///< "ring", "double-binary-tree".
  std::string_view describe;  ///< Half a sentence for people.
  std::vector<Collective> collectives;
  bool in_rank_order = false;  ///< Whether ReducesInRankOrder holds: results are reproducible.
  bool in_place = true;        ///< Whether it carries out problems that are in place.
  bool takes_order = false;    ///< Whether AlgorithmOptions::order makes a difference.
  bool needs_groups = false;   ///< Whether it fails without AlgorithmOptions::groups.
  bool needs_fabric = false;   ///< Whether it fails without AlgorithmOptions::fabric.
  int worth_hosts = INT_MAX;   ///< With more hosts there is always a better algorithm.
  OutlineResult (*make)(const Problem& problem, const AlgorithmOptions& options);

  bool CarriesOut(Collective collective) const;
};

/// Returns all algorithms, from which a planner chooses. A new one is a file and a line in the
/// table.
std::span<const Algorithm> Algorithms();

/// Returns the algorithm of this name, or nullptr.
const Algorithm* FindAlgorithm(std::string_view name);

}  // namespace harmonaize
