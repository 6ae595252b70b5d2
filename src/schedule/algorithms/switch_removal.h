#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/bounds/capacity_graph.h"

namespace harmonaize {

/// Number of spanning trees with each node as root (switches: 0), and the nodes they must reach.
struct TreeDemand {
  std::vector<int64_t> trees;  ///< By node.
  std::vector<int> receivers;  ///< The nodes of all hosts.

  int64_t total() const;
};

/// A graph over hosts alone: the edges that trees may use from host to host, and their routes.
class LogicalGraph {
 public:
  /// Some of the capacity between two nodes, and the edges of the fabric that it takes.
  struct Portion {
    int64_t capacity = 0;
    Route route;
  };

  explicit LogicalGraph(int nodes) : nodes_(nodes), capacity_(Cells(), 0), portions_(Cells()) {}

  int nodes() const { return nodes_; }
  int64_t Capacity(int from, int to) const { return capacity_[Cell(from, to)]; }
  /// Returns the portions between two nodes; Take removes the last ones first.
  const std::vector<Portion>& Portions(int from, int to) const { return portions_[Cell(from, to)]; }

  void Add(int from, int to, int64_t capacity, Route route);
  /// Moves capacity from two edges that meet in `by` to one that leads past it; if from == to, it
  /// is lost.
  void Split(int from, int by, int to, int64_t capacity);
  /// Drops all capacity of a node.
  void Isolate(int node);
  /// Removes capacity from an edge, the last portions first.
  std::vector<Portion> Take(int from, int to, int64_t capacity);

 private:
  size_t Cells() const { return static_cast<size_t>(nodes_) * static_cast<size_t>(nodes_); }
  size_t Cell(int from, int to) const {
    return static_cast<size_t>(from) * static_cast<size_t>(nodes_) + static_cast<size_t>(to);
  }
  int nodes_;
  std::vector<int64_t> capacity_;
  std::vector<std::vector<Portion>> portions_;
};

/// Returns whether trees of this demand can be packed into a graph (Edmonds, 1973): every receiver
/// is reached by a flow of all of them.
bool CanPack(const LogicalGraph& graph, const TreeDemand& demand);

/// Replaces switches by edges between hosts. `graph` has the capacity of each edge in trees, and
/// must be able to carry the demand. If at every switch as much comes in as goes out, the result
/// can still carry it (edge splitting: Bang-Jensen, Frank and Jackson, 1995; Zhao et al.,
/// "ForestColl", 2024). Where in and out differ it may not, so callers check CanPack afterwards.
///
/// Each switch's capacity is first dealt out evenly over its neighbours, so that trees become flat.
/// Where the cuts do not allow that, it is dealt to one pair after the other, as much as they
/// allow.
LogicalGraph RemoveSwitches(const CapacityGraph& graph, const TreeDemand& demand);

}  // namespace harmonaize
