#pragma once

#include <vector>

#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// One way around the hosts.
struct Ring {
  std::vector<int> order;  ///< Host numbers, each once; empty: in the order of the numbers.
  /// The path (see Step) from order[i] to the next; any if empty.
  std::vector<int> paths = {};
};

/// Rings over the hosts: all-reduce, all-gather, reduce-scatter (Patarasuk and Yuan, 2009). The
/// ranks of a host take part as one: what comes is reduced with all of them in one step. With h
/// hosts every host sends and receives (h-1)/h of the data in each phase, the least there is, in
/// h-1 turns.
///
/// The data are shared out equally over the rings; two that run in opposite directions, say, or
/// several on disjoint paths. In an all-reduce every host has `pieces` pieces in each ring, so that
/// one is sent while another is reduced: pieces * h * rings in all; otherwise a unit has
/// pieces * rings.
OutlineResult MakeRings(const Problem& problem, const std::vector<Ring>& rings, int pieces);

}  // namespace harmonaize
