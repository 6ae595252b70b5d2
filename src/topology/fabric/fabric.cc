#include "src/topology/fabric/fabric.h"

#include <algorithm>
#include <cctype>

namespace harmonaize {
namespace {

constexpr size_t kLongestName = 32;

template <typename Named>
int FindByName(const std::vector<Named>& list, std::string_view name) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Named& one) { return one.name == name; });
  return found == list.end() ? -1 : static_cast<int>(found - list.begin());
}

}  // namespace

const char* NodeKindName(NodeKind kind) {
  switch (kind) {
    case NodeKind::kHost: return "host";
    case NodeKind::kLeaf: return "leaf";
    case NodeKind::kSpine: return "spine";
    case NodeKind::kCore: return "core";
  }
  return "unknown";
}

int Fabric::FindNode(std::string_view node_name) const {
  return FindByName(nodes, node_name);
}

int Fabric::FindLink(std::string_view link_name) const {
  return FindByName(links, link_name);
}

std::vector<int> Fabric::Hosts() const {
  std::vector<int> hosts;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].kind == NodeKind::kHost) hosts.push_back(static_cast<int>(i));
  }
  return hosts;
}

std::vector<int> Fabric::HostsOfRack(int rack) const {
  std::vector<int> hosts = Hosts();
  std::erase_if(hosts, [&](int host) { return nodes[static_cast<size_t>(host)].rack != rack; });
  return hosts;
}

std::vector<Endpoint> Fabric::Endpoints() const {
  std::vector<Endpoint> endpoints;
  for (const int host : Hosts()) {
    const size_t nics = nodes[static_cast<size_t>(host)].nics.size();
    for (size_t nic = 0; nic < nics; ++nic) endpoints.push_back({host, static_cast<int>(nic)});
  }
  return endpoints;
}

std::vector<Edge> Fabric::Edges() const {
  std::vector<Edge> edges;
  edges.reserve(2 * links.size());
  for (size_t i = 0; i < 2 * links.size(); ++i) edges.push_back(EdgeAt(static_cast<int>(i)));
  return edges;
}

Edge Fabric::EdgeAt(int edge) const {
  const Link& link = links[static_cast<size_t>(edge / 2)];
  const size_t direction = static_cast<size_t>(edge % 2);
  return {.from = link.ends[direction].node,
          .to = link.ends[1 - direction].node,
          .bytes_per_second = link.bytes_per_second[direction],
          .latency_seconds = link.latency_seconds};
}

const Nic& Fabric::NicAt(Endpoint endpoint) const {
  return nodes[static_cast<size_t>(endpoint.host)].nics[static_cast<size_t>(endpoint.nic)];
}

std::string Fabric::EndpointName(Endpoint endpoint) const {
  const Node& host = nodes[static_cast<size_t>(endpoint.host)];
  return host.nics.size() == 1 ? host.name
                               : fmt::format("{}:{}", host.name, NicAt(endpoint).device);
}

bool IsFabricName(std::string_view name) {
  const auto good = [](unsigned char letter) {
    return std::isalnum(letter) || letter == '_' || letter == '-';
  };
  return !name.empty() && name.size() <= kLongestName && name[0] != '-' &&
         std::all_of(name.begin(), name.end(), good);
}

}  // namespace harmonaize
