#pragma once

#include <vector>

#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// An all-reduce in which pairs of hosts exchange all data they have, and both reduce it: after
/// turn t each has the result of 2^t hosts (Thakur, Rabenseifner and Gropp, 2005). It has half as
/// many messages in a row as a tree used both ways, and each host sends everything log2 h times:
/// for small data, and for two hosts. Of the hosts in `order` (host numbers; empty: ascending) the
/// first 2^k take part, for the largest possible k. Each of the others gives its data to one of
/// them first, and gets the result from it last.
///
/// All ranks get the same bits if the operator is commutative, as NCCL's are.
OutlineResult MakeRecursiveDoubling(const Problem& problem, const std::vector<int>& order,
                                    int pieces);

}  // namespace harmonaize
