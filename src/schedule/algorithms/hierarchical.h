#pragma once

#include <vector>

#include "src/schedule/algorithms/tree.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// Groups of hosts, and the trees inside the groups and between them.
struct Hierarchy {
  /// Host numbers, each in one group; a rack, say. The sizes may differ.
  std::vector<std::vector<int>> groups;
  TreeShape within = TreeShape::kChain;
  TreeShape across = TreeShape::kChain;
};

/// Three levels: the ranks of a host, the hosts of a group, the groups. A block is reduced inside
/// each group to one host of it, over these hosts to its root, and goes back in the same way. The
/// blocks are spread over the hosts of a group, so that all of them exchange with other groups at
/// once, and every link between groups carries a block once in each direction: with g groups and
/// chains that is (g-1)/g of the data for each group and phase, where a ring that enters and leaves
/// groups at random carries more.
///
/// All-reduce has pieces * groups * (hosts of the largest group) pieces; reduce-scatter and
/// all-gather have `pieces` a unit, broadcast and reduce `pieces` for each host of the largest
/// group. Where groups differ in size, a host of a smaller one carries more than one of a larger.
OutlineResult MakeHierarchical(const Problem& problem, const Hierarchy& hierarchy, int pieces);

}  // namespace harmonaize
