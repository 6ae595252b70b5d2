#include "src/schedule/algorithms/tree_packing.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "src/schedule/bounds/max_flow.h"

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

/// Computes what an edge may lose. Into any set of nodes must lead as much capacity as there are
/// trees without a node in it, so that all can grow on. The waiting trees are fed to the network
/// from a source: each batch's count to a node of its own, which leads to its members without
/// limit. Then a cut between an edge's ends, the near one joined with the source, costs the count
/// of those batches that have a member on the far side. The capacity that it has beyond the count
/// of all can be spared.
class SpareCapacity {
 public:
  SpareCapacity(const LogicalGraph& graph, const TreeDemand& demand)
      : receivers_(demand.receivers),
        nodes_(graph.nodes()),
        seeds_(static_cast<size_t>(nodes_), 0),
        edges_(static_cast<size_t>(nodes_) * static_cast<size_t>(nodes_), -1),
        // Behind the nodes the source, and behind that a node for each batch of several members.
        network_(nodes_ + 1 + kMostBatches) {
    for (const int from : receivers_) {
      for (const int to : receivers_) {
        const int64_t capacity = graph.Capacity(from, to);
        if (capacity > 0) edges_[Cell(from, to)] = network_.AddEdge(from, to, capacity);
      }
    }
    for (int node = 0; node < nodes_; ++node) feed_.push_back(network_.AddEdge(nodes_, node, 0));
  }

  /// Adds a batch; batches come and go as on a stack. Returns false if there are too many of them.
  bool Push(const Growing& batch) {
    waiting_ += batch.count;
    if (batch.members.size() == 1) {
      SetSeeds(batch.members[0], batch.count);
      return true;
    }
    if (depth_ == kMostBatches) return false;
    if (depth_ == static_cast<int>(batches_.size())) AddBatch();
    const Batch& node = batches_[static_cast<size_t>(depth_++)];
    network_.SetCapacity(node.feed, batch.count);
    for (const int member : batch.members) {
      network_.SetCapacity(node.to_member[static_cast<size_t>(member)], FlowNetwork::kUnlimited);
    }
    return true;
  }

  void Pop(const Growing& batch) {
    waiting_ -= batch.count;
    if (batch.members.size() == 1) return SetSeeds(batch.members[0], -batch.count);
    const Batch& node = batches_[static_cast<size_t>(--depth_)];
    network_.SetCapacity(node.feed, 0);
    for (const int member : batch.members) {
      network_.SetCapacity(node.to_member[static_cast<size_t>(member)], 0);
    }
  }

  void SetLeft(int from, int to, int64_t capacity) {
    network_.SetCapacity(edges_[Cell(from, to)], capacity);
  }

  int64_t Of(int from, int to) {
    const int feed = feed_[static_cast<size_t>(from)];
    network_.SetCapacity(feed, FlowNetwork::kUnlimited);
    const int64_t flow = network_.MaxFlow(nodes_, to);
    network_.SetCapacity(feed, seeds_[static_cast<size_t>(from)]);
    return flow - waiting_;
  }

 private:
  // Most batches of several members, each of which needs a node of the network.
  static constexpr int kMostBatches = 256;

  struct Batch {
    int feed = 0;                // the edge from the source
    std::vector<int> to_member;  // edges, by node
  };

  size_t Cell(int from, int to) const {
    return static_cast<size_t>(from) * static_cast<size_t>(nodes_) + static_cast<size_t>(to);
  }

  void SetSeeds(int node, int64_t more) {
    seeds_[static_cast<size_t>(node)] += more;
    network_.SetCapacity(feed_[static_cast<size_t>(node)], seeds_[static_cast<size_t>(node)]);
  }

  void AddBatch() {
    const int number = nodes_ + 1 + static_cast<int>(batches_.size());
    Batch batch{network_.AddEdge(nodes_, number, 0), {}};
    for (int node = 0; node < nodes_; ++node) {
      batch.to_member.push_back(network_.AddEdge(number, node, 0));
    }
    batches_.push_back(std::move(batch));
  }

  const std::vector<int>& receivers_;
  int nodes_;
  std::vector<int64_t> seeds_;  // by node: trees that wait and have only their root
  std::vector<int> edges_;      // by cell
  std::vector<int> feed_;       // edges from the source, by node
  FlowNetwork network_;
  std::vector<Batch> batches_;
  int depth_ = 0;  // of batches_ in use
  int64_t waiting_ = 0;
};

class Packing {
 public:
  Packing(const LogicalGraph& graph, const TreeDemand& demand)
      : nodes_(graph.nodes()), receivers_(demand.receivers), spare_(graph, demand) {
    for (int from = 0; from < nodes_; ++from) {
      for (int to = 0; to < nodes_; ++to) left_.push_back(graph.Capacity(from, to));
    }
    for (int root = nodes_; root-- > 0;) {
      const int64_t count = demand.trees[static_cast<size_t>(root)];
      if (count > 0) Wait(Seed(root, count));
    }
  }

  Result<std::vector<TreeBatch>> Run() {
    std::vector<TreeBatch> batches;
    while (!waiting_.empty()) {
      Growing growing = std::move(waiting_.back());
      waiting_.pop_back();
      spare_.Pop(growing);
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

  /// Returns the edges that all the trees can have first, then those nearest to the root.
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

  /// Adds one edge to as many of the trees as can have it; the others wait unchanged.
  bool Grow(Growing& growing) {
    for (const Edge& edge : Candidates(growing)) {
      const size_t cell = Cell(edge.from, edge.to);
      const int64_t count = std::min({spare_.Of(edge.from, edge.to), growing.count, left_[cell]});
      if (count <= 0) {
        // The cut that forbids this edge will always do so: it is tight, and these trees are on
        // both sides.
        growing.useless[cell] = true;
        continue;
      }
      if (count < growing.count) {
        Growing others = growing;
        others.count -= count;
        growing.count = count;
        if (!Wait(std::move(others))) return false;
      }
      left_[cell] -= count;
      spare_.SetLeft(edge.from, edge.to, left_[cell]);
      growing.tree.parent[static_cast<size_t>(edge.to)] = edge.from;
      growing.depth[static_cast<size_t>(edge.to)] =
          growing.depth[static_cast<size_t>(edge.from)] + 1;
      growing.members.push_back(edge.to);
      return true;
    }
    return false;
  }

  bool Wait(Growing growing) {
    const bool fits = spare_.Push(growing);
    waiting_.push_back(std::move(growing));
    return fits;
  }

  int nodes_;
  std::vector<int> receivers_;
  std::vector<int64_t> left_;  // capacity, by cell
  std::vector<Growing> waiting_;
  SpareCapacity spare_;
};

}  // namespace

Result<std::vector<TreeBatch>> PackTrees(const LogicalGraph& graph, const TreeDemand& demand) {
  return Packing(graph, demand).Run();
}

}  // namespace harmonaize
