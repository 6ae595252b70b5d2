#pragma once

#include <string_view>
#include <vector>

namespace harmonaize {

/// A rooted tree over nodes 0 to nodes()-1. Its users define what nodes are: usually positions of
/// hosts.
struct Tree {
  /// Value of `parent` for a node that is not in the tree.
  static constexpr int kAbsent = -2;

  int root = 0;
  std::vector<int> parent;  ///< By node; -1 at the root.
  /// By node: the path (see Step) of the messages between a node and its parent; any if empty.
  std::vector<int> path = {};

  int nodes() const { return static_cast<int>(parent.size()); }
  bool Has(int node) const { return parent[static_cast<size_t>(node)] != kAbsent; }
  int PathOf(int node) const { return path.empty() ? -1 : path[static_cast<size_t>(node)]; }
};

/// Shape in which nodes are joined.
enum class TreeShape {
  kChain,     ///< Each node has one child: the most bandwidth in pieces, the most latency.
  kBinary,    ///< Two children each.
  kBinomial,  ///< The root of 2^k nodes has k children: the least latency of a single block.
  kStar,      ///< The root has all others as its children.
};
inline constexpr int kTreeShapeCount = 4;
std::string_view TreeShapeName(TreeShape shape);

/// Returns a tree whose root is order[0]; `order` names each of the nodes 0 to order.size()-1 once.
Tree MakeTree(TreeShape shape, const std::vector<int>& order);

/// Returns the parent of place `place` > 0 in a tree of a shape over places 0 (the root), 1, 2, ...
int ParentPlace(TreeShape shape, int place);

/// Returns the nodes in the same cyclic order, from order[first] on.
std::vector<int> Rotated(const std::vector<int>& order, int first);

/// Depths, heights and children of a tree's nodes, for code that walks over trees.
class TreeWalk {
 public:
  explicit TreeWalk(const Tree& tree);

  int DepthOf(int node) const { return depth_[static_cast<size_t>(node)]; }
  /// Returns the number of edges to the farthest node below.
  int HeightOf(int node) const { return height_[static_cast<size_t>(node)]; }
  int height() const { return HeightOf(root_); }
  int ChildCount(int node) const {
    return first_child_[static_cast<size_t>(node) + 1] - first_child_[static_cast<size_t>(node)];
  }
  /// Returns a child. The child with the lowest subtree comes first, and equals are in cyclic order
  /// behind the node, so that parents of one order do not all begin with the same child.
  int Child(int node, int number) const {
    const int place = first_child_[static_cast<size_t>(node)] + number;
    return children_[static_cast<size_t>(place)];
  }

 private:
  int root_;
  std::vector<int> depth_;
  std::vector<int> height_;
  std::vector<int> first_child_;
  std::vector<int> children_;
};

}  // namespace harmonaize
