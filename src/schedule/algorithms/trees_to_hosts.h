#pragma once

#include <vector>

#include "src/schedule/algorithms/forest.h"

namespace harmonaize {

/// An algorithm, for the collectives in which all hosts do alike (reduce-scatter, all-gather,
/// all-reduce), that has one tree to each host: data is reduced up it, or broadcast down it.
struct TreesToHosts {
  const char* name = nullptr;         ///< Name of the outline.
  const char* in_sentence = nullptr;  ///< "the ... algorithm", for errors.
  /// Returns how many hosts, the first ones in the order, reduce a part of an all-reduce's result.
  int (*all_reduce_roots)(int hosts) = nullptr;
  /// Returns the tree to the host at place `root` of the order, which is given as positions.
  Tree (*tree_to)(const std::vector<int>& order, int root) = nullptr;
};

/// Returns the algorithm's outline for `order` (host numbers; empty: ascending). An all-reduce has
/// `pieces` pieces for each of its roots, the others have `pieces` a unit. Errors: kInvalidArgument
/// for an invalid problem or order, for pieces below 1 or too many, and for another collective.
OutlineResult MakeTreesToHosts(const Problem& problem, const std::vector<int>& order, int pieces,
                               const TreesToHosts& algorithm);

}  // namespace harmonaize
