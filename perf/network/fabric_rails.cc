#include "perf/network/fabric_rails.h"

#include <algorithm>
#include <utility>

namespace harmonaize::perf {
namespace {

/// Of the networks that the laboratory gives to NICs and to each explicit path.
constexpr int kPrefixBits = 24;

Result<transport::RailOptions> RailAt(const std::string& device, const std::string& address) {
  Result<transport::NetworkAddress> parsed = transport::NetworkAddress::Parse(address);
  if (!parsed.ok()) return parsed.status();
  transport::RailOptions rail;
  rail.device = device;
  rail.address = *parsed;
  rail.prefix_bits = kPrefixBits;
  return rail;
}

}  // namespace

FabricRails::FabricRails(Fabric fabric)
    : fabric_(std::move(fabric)), routing_(fabric_), hosts_(fabric_.Hosts()) {
  nics_ = SIZE_MAX;
  for (const int host : hosts_) {
    nics_ = std::min(nics_, fabric_.nodes[static_cast<size_t>(host)].nics.size());
  }
  paths_ = static_cast<size_t>(fabric_.explicit_paths);
}

int FabricRails::HostNamed(const std::string& name) const {
  const auto found = std::find(hosts_.begin(), hosts_.end(), fabric_.FindNode(name));
  return found == hosts_.end() ? -1 : static_cast<int>(found - hosts_.begin());
}

CapacityGraph FabricRails::Capacities(double share) const {
  CapacityGraph graph;
  for (size_t node = 0; node < fabric_.nodes.size(); ++node) {
    const auto host = std::find(hosts_.begin(), hosts_.end(), static_cast<int>(node));
    graph.host_of_node.push_back(host == hosts_.end() ? -1
                                                      : static_cast<int>(host - hosts_.begin()));
  }
  for (const Edge& edge : fabric_.Edges()) {
    const auto capacity = static_cast<int64_t>(edge.bytes_per_second * share / 1e3);
    graph.edges.push_back({edge.from, edge.to, std::max<int64_t>(1, capacity)});
  }
  return graph;
}

Result<std::vector<transport::RailOptions>> FabricRails::RailsOf(int host) const {
  const Node& node = fabric_.nodes[static_cast<size_t>(hosts_[static_cast<size_t>(host)])];
  std::vector<transport::RailOptions> rails;
  const auto add = [&](const std::string& device, const std::string& address) -> Status {
    Result<transport::RailOptions> rail = RailAt(device, address);
    if (rail.ok()) rails.push_back(std::move(*rail));
    return rail.ok() ? Status::Ok() : rail.status();
  };
  for (size_t nic = 0; nic < nics_; ++nic) {
    HZ_RETURN_IF_ERROR(add(node.nics[nic].device, node.nics[nic].address));
  }
  for (size_t nic = 0; nic < nics_; ++nic) {
    for (const PathEndpoint& path : node.nics[nic].paths) {
      HZ_RETURN_IF_ERROR(add(path.device, path.address));
    }
  }
  return rails;
}

size_t FabricRails::RailOf(int from, int to, const std::vector<int>& route, size_t turn) const {
  std::vector<size_t> best;
  long best_shared = -1;
  for (size_t nic = 0; nic < nics_; ++nic) {
    for (size_t path = 0; path < paths_; ++path) {
      const Route way = routing_.ExplicitRoute(
          {hosts_[static_cast<size_t>(from)], static_cast<int>(nic)},
          {hosts_[static_cast<size_t>(to)], static_cast<int>(nic)}, static_cast<int>(path));
      const long shared = std::count_if(way.begin(), way.end(), [&](int edge) {
        return std::find(route.begin(), route.end(), edge) != route.end();
      });
      if (shared < best_shared) continue;
      if (shared > best_shared) best.clear();
      best_shared = shared;
      best.push_back(nics_ + nic * paths_ + path);
    }
  }
  return best.empty() ? turn % nics_ : best[turn % best.size()];
}

}  // namespace harmonaize::perf
