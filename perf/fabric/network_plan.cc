#include "perf/fabric/network_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "perf/fabric/namespaces.h"
#include "src/topology/fabric/fabric_routing.h"

namespace harmonaize::fabric {
namespace {

constexpr char kNextHop[] = "169.254.0.1";
// First routing table of a host's NICs; below are the kernel's own and those that people use by
// hand.
constexpr int kFirstTable = 1000;

// Least bytes of a burst: with less than the largest packet of segmentation offload (64 KiB) the
// kernel would cut it up again.
constexpr double kLeastBurst = 72 * 1024;
// Most bytes of a burst.
constexpr double kMostBurst = 1024 * 1024;
// Seconds of its rate that a switch's port queues. With a tenth of it two TCP transfers share a
// link unevenly, because only tens of packets of segmentation offload fit.
constexpr double kQueueSeconds = 8e-3;
// Least bytes that a switch's port queues.
constexpr double kLeastQueue = 2 * 1024 * 1024;

std::string HardwareAddress(int link, int end) {
  return fmt::format("02:48:5a:{:02x}:{:02x}:{:02x}", link >> 8 & 255, link & 255, end);
}

const std::string& AddressOf(const Nic& nic, int path) {
  return path < 0 ? nic.address : nic.paths[static_cast<size_t>(path)].address;
}

// Returns the name of the unused end of a path's device.
std::string StubOf(size_t nic, size_t path) {
  return fmt::format("stub{}.{}", nic, path);
}

}  // namespace

NetworkPlan::NetworkPlan(const std::string& laboratory, const FabricFile& file,
                         Disturbances disturbances)
    : laboratory_(laboratory),
      file_(file),
      fabric_(file.fabric),
      disturbances_(std::move(disturbances)) {}

std::string NetworkPlan::DeviceName(int link, int end) const {
  const LinkEnd& at = fabric_.links[static_cast<size_t>(link)].ends[static_cast<size_t>(end)];
  return at.nic < 0 ? fmt::format("link{}", link) : fabric_.NicAt({at.node, at.nic}).device;
}

std::vector<NetworkPlan::Port> NetworkPlan::PortsOf(int node) const {
  std::vector<Port> ports;
  for (size_t link = 0; link < fabric_.links.size(); ++link) {
    for (int end = 0; end < 2; ++end) {
      if (fabric_.links[link].ends[static_cast<size_t>(end)].node == node) {
        ports.push_back({static_cast<int>(link), end});
      }
    }
  }
  return ports;
}

double NetworkPlan::RateOf(int edge) const {
  const auto changed = disturbances_.rates.find(edge);
  return changed != disturbances_.rates.end() ? changed->second
                                              : fabric_.EdgeAt(edge).bytes_per_second;
}

bool NetworkPlan::IsDown(int link) const {
  return !disturbances_.down.empty() && disturbances_.down[static_cast<size_t>(link)];
}

std::string NetworkPlan::Create() const {
  std::string text;
  for (const Node& node : fabric_.nodes) {
    text += fmt::format("netns add {}\n", NamespaceName(laboratory_, node.name));
  }
  for (size_t i = 0; i < fabric_.links.size(); ++i) {
    const int link = static_cast<int>(i);
    const auto space = [&](size_t end) {
      const size_t node = static_cast<size_t>(fabric_.links[i].ends[end].node);
      return NamespaceName(laboratory_, fabric_.nodes[node].name);
    };
    text += fmt::format(
        "link add name {} address {} netns {} type veth peer name {} address {} netns {}\n",
        DeviceName(link, 0), HardwareAddress(link, 0), space(0), DeviceName(link, 1),
        HardwareAddress(link, 1), space(1));
  }
  return text;
}

std::string NetworkPlan::Delete(const std::vector<std::string>& namespaces) {
  std::string text;
  for (const std::string& name : namespaces) text += fmt::format("netns delete {}\n", name);
  return text;
}

std::string NetworkPlan::Devices(int node) const {
  std::string text = "link set dev lo up\n";
  for (const Port& port : PortsOf(node)) {
    text += fmt::format("link set dev {} mtu {} up\n", DeviceName(port.link, port.end),
                        file_.laboratory.mtu);
  }
  const std::vector<Nic>& nics = fabric_.nodes[static_cast<size_t>(node)].nics;
  for (size_t i = 0; i < nics.size(); ++i) {
    text += fmt::format("addr add {}/32 dev {}\n", nics[i].address, nics[i].device);
    for (size_t path = 0; path < nics[i].paths.size(); ++path) {
      const PathEndpoint& end = nics[i].paths[path];
      const std::string stub = StubOf(i, path);
      text += fmt::format("link add name {} type veth peer name {}\n", end.device, stub);
      text += fmt::format("link set dev {} up\n", stub);
      text += fmt::format("link set dev {} mtu {} up\n", end.device, file_.laboratory.mtu);
      text += fmt::format("addr add {}/32 dev {}\n", end.address, end.device);
    }
  }
  return text;
}

std::string NetworkPlan::Via(int edge) const {
  return fmt::format("via {} dev {} onlink", kNextHop, DeviceName(edge / 2, edge % 2));
}

std::string NetworkPlan::RouterRoute(int node, Endpoint to, int path) const {
  const std::string address = AddressOf(fabric_.NicAt(to), path);
  const std::string unreachable = fmt::format("route replace unreachable {}/32\n", address);
  std::vector<int> hops;
  if (path < 0) {
    const bool rerouted = disturbances_.rerouted;
    hops = FabricRouting(fabric_, rerouted ? disturbances_.down : std::vector<bool>())
               .NextHops(node, to);
    std::erase_if(hops, [this](int edge) { return IsDown(edge / 2); });
  } else if (const int edge = FabricRouting(fabric_).ExplicitNextHop(node, to, path);
             edge >= 0 && !IsDown(edge / 2)) {
    hops = {edge};
  }
  if (hops.empty()) return unreachable;
  const Node& here = fabric_.nodes[static_cast<size_t>(node)];
  if (hops.size() == 1) {
    // A host that forwards is the source of the packets that it sends itself.
    const LinkEnd& end =
        fabric_.links[static_cast<size_t>(hops[0] / 2)].ends[static_cast<size_t>(hops[0] % 2)];
    const std::string source =
        end.nic < 0 ? "" : " src " + AddressOf(here.nics[static_cast<size_t>(end.nic)], path);
    return fmt::format("route replace {}/32 {}{}\n", address, Via(hops[0]), source);
  }
  std::string text = fmt::format("route replace {}/32", address);
  for (const int edge : hops) text += " nexthop " + Via(edge);
  return text + "\n";
}

std::string NetworkPlan::HostRoute(int node, Endpoint to, int path) const {
  const std::string& address = AddressOf(fabric_.NicAt(to), path);
  // An explicit path does not move to another NIC when its own fails.
  const bool moves = path < 0 && disturbances_.rerouted;
  const int nic =
      FabricRouting(fabric_, moves ? disturbances_.down : std::vector<bool>()).NicTowards(node, to);
  const Nic* by = nic < 0 ? nullptr : &fabric_.NicAt({node, nic});
  if (by == nullptr || IsDown(by->link)) {
    return fmt::format("route replace unreachable {}/32\n", address);
  }
  return fmt::format("route replace {}/32 via {} dev {} onlink src {}\n", address, kNextHop,
                     by->device, AddressOf(*by, path));
}

std::string NetworkPlan::Routes(int node) const {
  std::string text;
  for (const Port& port : PortsOf(node)) {
    if (IsDown(port.link)) continue;
    text += fmt::format("neigh replace {} lladdr {} dev {} nud permanent\n", kNextHop,
                        HardwareAddress(port.link, 1 - port.end), DeviceName(port.link, port.end));
  }
  const Node& here = fabric_.nodes[static_cast<size_t>(node)];
  for (const Endpoint& to : fabric_.Endpoints()) {
    if (to.host == node) continue;
    for (int path = -1; path < fabric_.explicit_paths; ++path) {
      text += here.forwards ? RouterRoute(node, to, path) : HostRoute(node, to, path);
    }
  }
  if (here.forwards || here.nics.size() < 2) return text;
  for (size_t i = 0; i < here.nics.size(); ++i) {
    const int table = kFirstTable + static_cast<int>(i);
    text += IsDown(here.nics[i].link)
                ? fmt::format("route replace unreachable default table {}\n", table)
                : fmt::format("route replace default via {} dev {} onlink table {}\n", kNextHop,
                              here.nics[i].device, table);
  }
  return text;
}

std::string NetworkPlan::Rules(int node) const {
  const Node& here = fabric_.nodes[static_cast<size_t>(node)];
  if (here.forwards || here.nics.size() < 2) return "";
  std::string text;
  for (size_t i = 0; i < here.nics.size(); ++i) {
    for (int path = -1; path < fabric_.explicit_paths; ++path) {
      text += fmt::format("rule add from {}/32 lookup {}\n", AddressOf(here.nics[i], path),
                          kFirstTable + static_cast<int>(i));
    }
  }
  return text;
}

std::string NetworkPlan::Shaping(int node) const {
  std::string text;
  for (const Port& port : PortsOf(node)) {
    const double rate = RateOf(2 * port.link + port.end);
    const double burst = std::clamp(rate * kBucketSeconds, kLeastBurst, kMostBurst);
    const double stated = static_cast<double>(file_.laboratory.queue_bytes);
    const double queue = stated > 0 ? stated : std::max(rate * kQueueSeconds, kLeastQueue);
    text += fmt::format("qdisc replace dev {} root tbf rate {:.0f}bit burst {:.0f} limit {:.0f}\n",
                        DeviceName(port.link, port.end), rate * 8, burst, queue);
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> NetworkPlan::KernelParameters(int node) const {
  std::vector<std::pair<std::string, std::string>> parameters = {
      // IPv6 would send packets of its own, and counters should count only the traffic asked for.
      {"net/ipv6/conf/all/disable_ipv6", "1"},
      {"net/ipv6/conf/default/disable_ipv6", "1"},
      // Answers may come by another NIC.
      {"net/ipv4/conf/all/rp_filter", "0"},
      {"net/ipv4/conf/default/rp_filter", "0"},
      // ECMP hashes ports too, so that connections between two hosts spread.
      {"net/ipv4/fib_multipath_hash_policy", "1"},
      // A connection starts without what the kernel remembers of others to that host.
      {"net/ipv4/tcp_no_metrics_save", "1"},
  };
  if (fabric_.nodes[static_cast<size_t>(node)].forwards) {
    parameters.emplace_back("net/ipv4/ip_forward", "1");
  }
  return parameters;
}

}  // namespace harmonaize::fabric
