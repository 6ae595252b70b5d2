#pragma once

#include <vector>

#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// Sends every rank's block straight to its destination's host, in `pieces` pieces. In each turn a
/// host sends to one other and receives from one, so that no receiver is crowded: it goes through
/// the others in rotation, or, in place, one after the other as partners (every pair of hosts once,
/// as in a round robin tournament). In place, the two blocks that a pair of ranks owe each other
/// change places: one of the hosts stages its own in scratch memory.
OutlineResult MakeDirectAllToAll(const Problem& problem, int pieces);

/// Inside a group (host numbers, each in one group; the sizes may differ) does what
/// MakeDirectAllToAll does. A block for another group is handed first to one host of its own group,
/// which sends it to its destination: host i of a group sends to those hosts of another whose
/// number there is i modulo the group's size. So a host's peers in other groups have related
/// numbers, and on rails that join hosts of one number, all traffic between groups stays on its
/// rail. Costs a second message of latency, and up to twice the traffic. Not in place.
OutlineResult MakeTwoLevelAllToAll(const Problem& problem,
                                   const std::vector<std::vector<int>>& groups, int pieces);

}  // namespace harmonaize
