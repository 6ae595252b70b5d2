#include "src/schedule/algorithms/tree.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace harmonaize {

std::string_view TreeShapeName(TreeShape shape) {
  switch (shape) {
    case TreeShape::kChain: return "chain";
    case TreeShape::kBinary: return "binary tree";
    case TreeShape::kBinomial: return "binomial tree";
    case TreeShape::kStar: return "star";
  }
  return "unknown";
}

int ParentPlace(TreeShape shape, int place) {
  switch (shape) {
    case TreeShape::kChain: return place - 1;
    case TreeShape::kBinary: return (place - 1) / 2;
    // The parent is the place without its highest bit, so the farthest half gets its data first.
    case TreeShape::kBinomial: return place - static_cast<int>(std::bit_floor(unsigned(place)));
    case TreeShape::kStar: break;
  }
  return 0;
}

Tree MakeTree(TreeShape shape, const std::vector<int>& order) {
  Tree tree;
  tree.root = order[0];
  tree.parent.assign(order.size(), -1);
  for (size_t place = 1; place < order.size(); ++place) {
    const int parent = ParentPlace(shape, static_cast<int>(place));
    tree.parent[static_cast<size_t>(order[place])] = order[static_cast<size_t>(parent)];
  }
  return tree;
}

std::vector<int> Rotated(const std::vector<int>& order, int first) {
  std::vector<int> rotated = order;
  std::rotate(rotated.begin(), rotated.begin() + first, rotated.end());
  return rotated;
}

TreeWalk::TreeWalk(const Tree& tree)
    : root_(tree.root),
      depth_(tree.parent.size(), 0),
      height_(tree.parent.size(), 0),
      first_child_(tree.parent.size() + 1, 0),
      children_(tree.parent.size() - 1) {
  const int nodes = tree.nodes();
  for (const int parent : tree.parent) {
    if (parent >= 0) ++first_child_[static_cast<size_t>(parent) + 1];
  }
  for (size_t node = 0; node < depth_.size(); ++node) first_child_[node + 1] += first_child_[node];
  std::vector<int> next(first_child_.begin(), first_child_.end() - 1);
  for (int node = 0; node < nodes; ++node) {
    const int parent = tree.parent[static_cast<size_t>(node)];
    if (parent < 0) continue;
    children_[static_cast<size_t>(next[static_cast<size_t>(parent)]++)] = node;
  }
  std::vector<int> order = {root_};
  order.reserve(depth_.size());
  for (size_t i = 0; i < order.size(); ++i) {
    for (int number = 0; number < ChildCount(order[i]); ++number) {
      const int child = Child(order[i], number);
      depth_[static_cast<size_t>(child)] = DepthOf(order[i]) + 1;
      order.push_back(child);
    }
  }
  for (size_t i = order.size(); i-- > 1;) {
    int& above = height_[static_cast<size_t>(tree.parent[static_cast<size_t>(order[i])])];
    above = std::max(above, HeightOf(order[i]) + 1);
  }
  for (int node = 0; node < nodes; ++node) {
    const auto begin = children_.begin() + first_child_[static_cast<size_t>(node)];
    const auto key = [&](int child) {
      return std::tuple(HeightOf(child), (child - node + nodes) % nodes);
    };
    std::sort(begin, begin + ChildCount(node), [&](int a, int b) { return key(a) < key(b); });
  }
}

}  // namespace harmonaize
