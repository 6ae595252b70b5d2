#pragma once

#include <vector>

#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// Recursive halving (reduce-scatter), recursive doubling (all-gather) and both (all-reduce) over
/// the hosts in `order` (host numbers; empty: ascending): Rabenseifner 2004; Thakur, Rabenseifner
/// and Gropp, 2005.
/// 2^k hosts take part, the largest power of two, in k turns for each phase. Each of the other
/// hosts gives its data to one of them first, and gets the result from it last, which doubles that
/// host's traffic. An all-reduce has `pieces` pieces for each of the 2^k, the other collectives
/// have `pieces` a unit.
OutlineResult MakeHalvingDoubling(const Problem& problem, const std::vector<int>& order,
                                  int pieces);

}  // namespace harmonaize
