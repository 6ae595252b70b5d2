#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace harmonaize {

/// A flow network whose capacities may change between two questions. Thread: one.
class FlowNetwork {
 public:
  /// Stands for no limit. It exceeds the sum of the capacities of any network, and is small enough
  /// that some thousands of it can be added.
  static constexpr int64_t kUnlimited = int64_t{1} << 48;

  explicit FlowNetwork(int nodes);
  ~FlowNetwork();
  FlowNetwork(FlowNetwork&&) noexcept;
  FlowNetwork& operator=(FlowNetwork&&) noexcept;

  /// Returns the number of the new edge.
  int AddEdge(int from, int to, int64_t capacity);
  void SetCapacity(int edge, int64_t capacity);

  /// Returns the most that can flow from one node to another (Goldberg and Tarjan's push-relabel,
  /// 1988).
  int64_t MaxFlow(int source, int sink);

  /// After MaxFlow: returns the nodes that the source still reaches, one side of a least cut.
  std::vector<bool> SourceSide(int source) const;

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace harmonaize
