#include "src/schedule/tree_packing.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "src/schedule/max_flow.h"

namespace harmonaize {
namespace {

/// Trees that are the same so far.
struct Growing {
  int64_t count = 0;
  Tree tree;
  std::vector<int> members;        // nodes, the root first
  std::vector<int> depth;          // by node; -1: not there yet
  std::vector<bool> useless = {};  // by edge (from * nodes + to): no tree of these can take it
};

class Packing {
 public:
  Packing(const LogicalGraph& graph, const TreeDemand& demand)
      : nodes_(graph.nodes()), receivers_(demand.receivers) {
    for (int from = 0; from < nodes_; ++from) {
      for (int to = 0; to < nodes_; ++to) left_.push_back(graph.Capacity(from, to));
    }
    for (int root = nodes_; root-- > 0;) {
      const int64_t count = demand.trees[static_cast<size_t>(root)];
      if (count > 0) waiting_.push_back(Seed(root, count));
    }
  }

  Result<std::vector<TreeBatch>> Run() {
    std::vector<TreeBatch> batches;
    while (!waiting_.empty()) {
      Growing growing = std::move(waiting_.back());
      waiting_.pop_back();
      while (growing.members.size() < receivers_.size()) {
        if (!Grow(growing)) {
          return InternalError("{} trees with root {} cannot grow beyond {} of {} nodes",
                               growing.count, growing.tree.root, growing.members.size(),
                               receivers_.size());
        }
      }
      batches.push_back({growing.count, std::move(growing.tree)});
    }
    return batches;
  }

 private:
  struct Edge {
    int from = 0;
    int to = 0;
  };

  size_t Cell(int from, int to) const {
    return static_cast<size_t>(from) * static_cast<size_t>(nodes_) + static_cast<size_t>(to);
  }

  Growing Seed(int root, int64_t count) const {
    const auto nodes = static_cast<size_t>(nodes_);
    Growing seed{count,
                 {root, std::vector<int>(nodes, Tree::kAbsent)},
                 {root},
                 std::vector<int>(nodes, -1),
                 std::vector<bool>(left_.size(), false)};
    seed.tree.parent[static_cast<size_t>(root)] = -1;
    seed.depth[static_cast<size_t>(root)] = 0;
    return seed;
  }

  /// Those that all the trees can have first, then those nearest to the root.
  std::vector<Edge> Candidates(const Growing& growing) const {
    std::vector<Edge> edges;
    for (const int from : growing.members) {
      for (const int to : receivers_) {
        const size_t cell = Cell(from, to);
        if (growing.depth[static_cast<size_t>(to)] < 0 && left_[cell] > 0 &&
            !growing.useless[cell]) {
          edges.push_back({from, to});
        }
      }
    }
    const auto key = [&](const Edge& edge) {
      const int64_t left = left_[Cell(edge.from, edge.to)];
      return std::tuple(left < growing.count, growing.depth[static_cast<size_t>(edge.from)], -left);
    };
    std::stable_sort(edges.begin(), edges.end(),
                     [&](const Edge& a, const Edge& b) { return key(a) < key(b); });
    return edges;
  }

  /// Adds one edge to as many of the trees as can have it; the others wait as they are.
  bool Grow(Growing& growing) {
    for (const Edge& edge : Candidates(growing)) {
      const int64_t count = Addable(growing, edge);
      if (count <= 0) {
        // The cut in the way stays in the way: it is tight, and these trees are on both sides.
        growing.useless[Cell(edge.from, edge.to)] = true;
        continue;
      }
      if (count < growing.count) {
        waiting_.push_back(growing);
        waiting_.back().count = growing.count - count;
        growing.count = count;
      }
      left_[Cell(edge.from, edge.to)] -= count;
      growing.tree.parent[static_cast<size_t>(edge.to)] = edge.from;
      growing.depth[static_cast<size_t>(edge.to)] =
          growing.depth[static_cast<size_t>(edge.from)] + 1;
      growing.members.push_back(edge.to);
      return true;
    }
    return false;
  }

  // The other trees have to be able to grow on: into any set of nodes must lead as much capacity as
  // there are trees without a node in it. A cut between edge.from and edge.to in a network where
  // each other batch is a node, fed from edge.from with its count and leading to its members
  // without limit, costs the batch's count exactly where it has a member on the far side.
  int64_t Addable(const Growing& growing, const Edge& edge) const {
    int next = nodes_;
    FlowNetwork network(nodes_ + static_cast<int>(waiting_.size()));
    for (const int from : receivers_) {
      for (const int to : receivers_) {
        if (left_[Cell(from, to)] > 0) network.AddEdge(from, to, left_[Cell(from, to)]);
      }
    }
    int64_t others = 0;
    for (const Growing& batch : waiting_) {
      others += batch.count;
      if (batch.members.size() == 1) {
        if (batch.members[0] != edge.from) {
          network.AddEdge(edge.from, batch.members[0], batch.count);
        }
        continue;
      }
      network.AddEdge(edge.from, next, batch.count);
      for (const int member : batch.members) network.AddEdge(next, member, FlowNetwork::kUnlimited);
      ++next;
    }
    const int64_t spare = network.MaxFlow(edge.from, edge.to) - others;
    return std::min({spare, growing.count, left_[Cell(edge.from, edge.to)]});
  }

  int nodes_;
  std::vector<int> receivers_;
  std::vector<int64_t> left_;  // capacity, by cell
  std::vector<Growing> waiting_;
};

}  // namespace

Result<std::vector<TreeBatch>> PackTrees(const LogicalGraph& graph, const TreeDemand& demand) {
  return Packing(graph, demand).Run();
}

}  // namespace harmonaize
