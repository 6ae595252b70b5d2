#include "src/schedule/algorithms/double_binary_tree.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "src/schedule/algorithms/forest.h"

namespace harmonaize {
namespace {

/// Returns the parent of number i in the in-order binary tree of the numbers 1 to n, whose leaves
/// are odd. It is the neighbour at the distance of i's lowest bit that has the next bit as its
/// lowest. 0 above the root.
int InOrderParent(int i, int n) {
  const int low = i & -i;
  int parent = (i ^ low) | (low << 1);
  if (parent > n) parent = i ^ low;
  return parent;
}

/// Returns a tree with order[0] at its root, above an in-order tree of the others, which
/// `number_of` numbers by their places.
template <typename NumberOf>
Tree InOrderTree(const std::vector<int>& order, NumberOf number_of) {
  const int others = static_cast<int>(order.size()) - 1;
  std::vector<int> node_of(order.size(), order[0]);  // by number; 0 is the root
  for (int place = 1; place <= others; ++place) {
    node_of[static_cast<size_t>(number_of(place))] = order[static_cast<size_t>(place)];
  }
  Tree tree{order[0], std::vector<int>(order.size(), -1)};
  for (int number = 1; number <= others; ++number) {
    tree.parent[static_cast<size_t>(node_of[static_cast<size_t>(number)])] =
        node_of[static_cast<size_t>(InOrderParent(number, others))];
  }
  return tree;
}

}  // namespace

OutlineResult MakeDoubleBinaryTree(const Problem& problem, const std::vector<int>& order,
                                   int pieces) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  HZ_RETURN_IF_ERROR(CheckPieces(problem, int64_t{2} * pieces));
  const HostPlacement placement(problem.host_of_rank);
  HZ_ASSIGN_OR_RETURN(const std::vector<int> positions, placement.PositionsOf(order));
  if (problem.collective != Collective::kAllReduce &&
      problem.collective != Collective::kBroadcast && problem.collective != Collective::kReduce) {
    return NotCarriedOut("a double binary tree", problem.collective);
  }
  const int root = problem.root < 0 ? positions[0] : placement.PositionOfRank(problem.root);
  const auto place = std::find(positions.begin(), positions.end(), root);
  const std::vector<int> from_root =
      Rotated(positions, static_cast<int>(place - positions.begin()));
  const int others = placement.hosts() - 1;
  Forest forest;
  forest.pieces = 2 * pieces;
  forest.trees.push_back(InOrderTree(from_root, [](int i) { return i; }));
  // The second tree exchanges odd and even numbers: by mirroring if there are as many of each,
  // otherwise by moving on by one.
  forest.trees.push_back(InOrderTree(
      from_root, [&](int i) { return others % 2 == 0 ? others + 1 - i : i % others + 1; }));
  for (int piece = 0; piece < 2 * pieces; ++piece) {
    const int tree = piece % 2;
    forest.flows.push_back(FlowOfPiece(problem.collective, piece, tree, tree, piece / 2));
  }
  return MakeForestOutline("double binary tree", problem, std::move(forest));
}

}  // namespace harmonaize
