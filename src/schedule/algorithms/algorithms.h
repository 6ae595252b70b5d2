#pragma once

#include <climits>
#include <span>
#include <string_view>
#include <vector>

#include "src/schedule/bounds/capacity_graph.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// What algorithms can be told. Each looks at what concerns it.
struct AlgorithmOptions {
  /// Pieces for each part into which the algorithm divides a unit anyhow: its header says how many
  /// there are then.
  int pieces = 1;
  /// Host numbers, each once: rings, chains and trees go along it. Empty: ascending.
  std::vector<int> order = {};
  /// Host numbers, each in one group; for algorithms of several levels.
  std::vector<std::vector<int>> groups = {};
  /// For algorithms that pack trees into it; they look at it only while the outline is made.
  const CapacityGraph* fabric = nullptr;
  /// For the same: how many trees they may use for a unit, at most.
  int most_trees = 64;
};

/// One line of the table of algorithms.
struct Algorithm {
  std::string_view name;      ///< "ring", "double-binary-tree".
  std::string_view describe;  ///< Half a sentence for people.
  std::vector<Collective> collectives;
  bool in_rank_order = false;  ///< ReducesInRankOrder holds: results are reproducible.
  bool in_place = true;        ///< Carries out problems that are in place.
  bool takes_order = false;    ///< AlgorithmOptions::order makes a difference.
  bool needs_groups = false;   ///< Refuses without AlgorithmOptions::groups.
  bool needs_fabric = false;   ///< Refuses without AlgorithmOptions::fabric.
  int worth_hosts = INT_MAX;   ///< Beyond these there is always a better one.
  OutlineResult (*make)(const Problem& problem, const AlgorithmOptions& options);

  bool CarriesOut(Collective collective) const;
};

/// All algorithms: what a planner chooses from. A new one is a file and a line in the table.
std::span<const Algorithm> Algorithms();

/// None if there is no algorithm of this name.
const Algorithm* FindAlgorithm(std::string_view name);

}  // namespace harmonaize
