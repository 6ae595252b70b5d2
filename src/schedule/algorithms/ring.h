#pragma once

#include <vector>

#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// One ring around the hosts.
struct Ring {
  std::vector<int> order;  ///< Host numbers, each once; empty: in the order of the numbers.
  /// The path (see Step) from order[i] to the next host; any if empty.
  std::vector<int> paths = {};
};

/// Rings over the hosts: all-reduce, all-gather, reduce-scatter (Patarasuk and Yuan, 2009). The
/// ranks of a host take part as one: data that arrives is reduced with all of them in one step.
/// With h hosts every host sends and receives (h-1)/h of the data in each phase, which is the
/// minimum, in h-1 turns.
///
/// The data is divided equally over the rings: two that run in opposite directions, say, or several
/// on disjoint paths. In an all-reduce every host has `pieces` pieces in each ring, so that one is
/// sent while another is reduced: pieces * h * rings in all; otherwise a unit has pieces * rings.
OutlineResult MakeRings(const Problem& problem, const std::vector<Ring>& rings, int pieces);

}  // namespace harmonaize
