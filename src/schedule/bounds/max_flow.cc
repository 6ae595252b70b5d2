#include "src/schedule/bounds/max_flow.h"

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>

namespace harmonaize {

struct FlowNetwork::Graph {
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using Descriptor = Traits::edge_descriptor;
  struct EdgeData {
    int64_t capacity = 0;
    int64_t residual = 0;
    Descriptor reverse;
  };
  using Network = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS,
                                        boost::no_property, EdgeData>;

  Network network;
  std::vector<Descriptor> edges;
};

FlowNetwork::FlowNetwork(int nodes)
    : graph_(new Graph{Graph::Network(static_cast<size_t>(nodes)), {}}) {}
FlowNetwork::~FlowNetwork() = default;
FlowNetwork::FlowNetwork(FlowNetwork&&) noexcept = default;
FlowNetwork& FlowNetwork::operator=(FlowNetwork&&) noexcept = default;

int FlowNetwork::AddEdge(int from, int to, int64_t capacity) {
  Graph::Network& network = graph_->network;
  const auto edge =
      boost::add_edge(static_cast<size_t>(from), static_cast<size_t>(to), network).first;
  const auto back =
      boost::add_edge(static_cast<size_t>(to), static_cast<size_t>(from), network).first;
  network[edge] = {capacity, 0, back};
  network[back] = {0, 0, edge};
  graph_->edges.push_back(edge);
  return static_cast<int>(graph_->edges.size()) - 1;
}

void FlowNetwork::SetCapacity(int edge, int64_t capacity) {
  graph_->network[graph_->edges[static_cast<size_t>(edge)]].capacity = capacity;
}

int64_t FlowNetwork::MaxFlow(int source, int sink) {
  Graph::Network& network = graph_->network;
  return boost::push_relabel_max_flow(
      network, static_cast<size_t>(source), static_cast<size_t>(sink),
      boost::get(&Graph::EdgeData::capacity, network),
      boost::get(&Graph::EdgeData::residual, network),
      boost::get(&Graph::EdgeData::reverse, network), boost::get(boost::vertex_index, network));
}

std::vector<bool> FlowNetwork::SourceSide(int source) const {
  const Graph::Network& network = graph_->network;
  std::vector<bool> reached(boost::num_vertices(network), false);
  std::vector<size_t> stack = {static_cast<size_t>(source)};
  reached[stack[0]] = true;
  while (!stack.empty()) {
    const size_t node = stack.back();
    stack.pop_back();
    const auto [begin, end] = boost::out_edges(node, network);
    for (auto edge = begin; edge != end; ++edge) {
      const size_t to = boost::target(*edge, network);
      if (reached[to] || network[*edge].residual <= 0) continue;
      reached[to] = true;
      stack.push_back(to);
    }
  }
  return reached;
}

}  // namespace harmonaize
