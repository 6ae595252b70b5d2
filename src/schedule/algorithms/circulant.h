#pragma once

#include <vector>

#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// Reduce-scatter, all-gather and all-reduce in ceil(log2 h) turns for each phase with any number h
/// of hosts, each sending and receiving no more than in a ring (Träff, "Optimal, Non-pipelined
/// Reduce-scatter and Allreduce Algorithms", 2024; Bruck et al., 1997, for the all-gather). In
/// every turn a host sends to one other, at half the distance of the turn before. `order` is of
/// host numbers (empty: ascending). An all-reduce has `pieces` pieces for every host, the others
/// have `pieces` a unit.
OutlineResult MakeCirculant(const Problem& problem, const std::vector<int>& order, int pieces);

}  // namespace harmonaize
