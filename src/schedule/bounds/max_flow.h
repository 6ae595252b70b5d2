#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace harmonaize {

/// A network of flow whose capacities change from one question to the next. Not for two threads at
/// once.
class FlowNetwork {
 public:
  /// More than the capacities of a network that has it may add up to, and so small that some
  /// thousands of them can be added.
  static constexpr int64_t kUnlimited = int64_t{1} << 48;

  explicit FlowNetwork(int nodes);
  ~FlowNetwork();
  FlowNetwork(FlowNetwork&&) noexcept;
  FlowNetwork& operator=(FlowNetwork&&) noexcept;

  /// Returns the number of the new edge.
  int AddEdge(int from, int to, int64_t capacity);
  void SetCapacity(int edge, int64_t capacity);

  /// The most that can flow from one node to another (Goldberg and Tarjan's push-relabel, 1988).
  int64_t MaxFlow(int source, int sink);

  /// After MaxFlow: the nodes that the source still reaches, one side of a least cut.
  std::vector<bool> SourceSide(int source) const;

 private:
  struct Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace harmonaize
