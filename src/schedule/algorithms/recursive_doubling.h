#pragma once

#include <vector>

#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// An all-reduce in which hosts exchange all they have and reduce both: after turn t each has the
/// result of 2^t of them (Thakur, Rabenseifner and Gropp, 2005). Half as many messages in a row as
/// down a tree and back, and each host sends everything log2 h times: for small data, and for two
/// hosts. Of the hosts in `order` (host numbers; empty: ascending) the first 2^k take part, as many
/// as there can be; each of the others gives what it has to one of them first, and gets the result
/// from it last.
///
/// All ranks get the same bits where the operator's two operands may change places, as those of
/// NCCL may.
OutlineResult MakeRecursiveDoubling(const Problem& problem, const std::vector<int>& order,
                                    int pieces);

}  // namespace harmonaize
