#include "tests/unit/schedule/fabrics.h"

#include <random>

namespace harmonaize {

CapacityGraph OneSwitch(const std::vector<int64_t>& capacity_of_host) {
  CapacityGraph graph;
  const int center = graph.AddSwitch();
  for (size_t host = 0; host < capacity_of_host.size(); ++host) {
    graph.AddLink(graph.AddHost(static_cast<int>(host)), center, capacity_of_host[host]);
  }
  return graph;
}

CapacityGraph Racks(const std::vector<int>& hosts_of_rack, int64_t host_capacity, int spines,
                    int64_t uplink_capacity) {
  CapacityGraph graph;
  std::vector<int> spine_nodes;
  for (int spine = 0; spine < spines; ++spine) spine_nodes.push_back(graph.AddSwitch());
  int host = 0;
  for (const int hosts : hosts_of_rack) {
    const int leaf = graph.AddSwitch();
    for (const int spine : spine_nodes) graph.AddLink(leaf, spine, uplink_capacity);
    for (int i = 0; i < hosts; ++i) graph.AddLink(graph.AddHost(host++), leaf, host_capacity);
  }
  return graph;
}

CapacityGraph HostRing(int hosts, int64_t capacity) {
  CapacityGraph graph;
  for (int host = 0; host < hosts; ++host) graph.AddHost(host);
  for (int host = 0; host < hosts; ++host) graph.AddLink(host, (host + 1) % hosts, capacity);
  return graph;
}

CapacityGraph Rails(int hosts, const std::vector<int64_t>& capacity_of_rail) {
  CapacityGraph graph;
  for (int host = 0; host < hosts; ++host) graph.AddHost(host);
  for (const int64_t capacity : capacity_of_rail) {
    const int rail = graph.AddSwitch();
    for (int host = 0; host < hosts; ++host) graph.AddLink(host, rail, capacity);
  }
  return graph;
}

CapacityGraph RandomFabric(int hosts, int switches, int64_t most_capacity, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<unsigned>(limit));
  };
  CapacityGraph graph;
  for (int i = 0; i < switches; ++i) graph.AddSwitch();
  for (int host = 0; host < hosts; ++host) graph.AddHost(host);
  for (int node = 1; node < graph.nodes(); ++node) {
    graph.AddLink(node, static_cast<int>(below(node)), 1 + below(most_capacity));
  }
  for (int more = 0; more < graph.nodes(); ++more) {
    const int a = static_cast<int>(below(graph.nodes()));
    const int b = static_cast<int>(below(graph.nodes()));
    if (a != b) graph.AddLink(a, b, 1 + below(most_capacity));
  }
  return graph;
}

}  // namespace harmonaize
