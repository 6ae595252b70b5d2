#include "cli/plan/fabric_summary.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace harmonaize {
namespace {

const Node& NodeAt(const Fabric& fabric, int node) {
  return fabric.nodes[static_cast<size_t>(node)];
}

bool IsHost(const Fabric& fabric, int node) {
  return NodeAt(fabric, node).kind == NodeKind::kHost;
}

std::map<int, std::set<int>> Neighbours(const Fabric& fabric) {
  std::map<int, std::set<int>> neighbours;
  for (const Edge& edge : fabric.Edges()) neighbours[edge.from].insert(edge.to);
  return neighbours;
}

}  // namespace

std::vector<std::vector<std::string>> RacksOf(const Fabric& fabric) {
  std::map<int, std::set<int>> neighbours = Neighbours(fabric);
  std::map<std::set<int>, std::vector<std::string>> by_switches;
  for (const int host : fabric.Hosts()) {
    std::set<int> switches = neighbours[host];
    std::erase_if(switches, [&](int node) { return IsHost(fabric, node); });
    if (switches.empty()) switches = {host};
    by_switches[switches].push_back(NodeAt(fabric, host).name);
  }
  std::vector<std::vector<std::string>> racks;
  for (auto& [switches, hosts] : by_switches) {
    std::sort(hosts.begin(), hosts.end());
    racks.push_back(std::move(hosts));
  }
  std::sort(racks.begin(), racks.end());
  return racks;
}

std::string RacksText(const std::vector<std::vector<std::string>>& racks) {
  std::string text;
  for (const std::vector<std::string>& hosts : racks) {
    text += fmt::format("{}{{{}}}", text.empty() ? "" : " ", fmt::join(hosts, ", "));
  }
  return text;
}

std::vector<std::string> HostPairs(const Fabric& fabric) {
  std::set<std::string> pairs;
  for (const Edge& edge : fabric.Edges()) {
    if (!IsHost(fabric, edge.from) || !IsHost(fabric, edge.to)) continue;
    const std::string& a = NodeAt(fabric, edge.from).name;
    const std::string& b = NodeAt(fabric, edge.to).name;
    pairs.insert(fmt::format("{} {}", std::min(a, b), std::max(a, b)));
  }
  return {pairs.begin(), pairs.end()};
}

CutRate CutAround(const Fabric& fabric, const std::vector<std::string>& hosts) {
  std::set<int> inside;
  for (const std::string& name : hosts) inside.insert(fabric.FindNode(name));
  std::map<int, std::set<int>> neighbours = Neighbours(fabric);
  std::set<int> switches;
  for (const int host : inside) {
    for (const int node : neighbours[host]) {
      if (IsHost(fabric, node)) continue;
      const bool only_theirs =
          std::all_of(neighbours[node].begin(), neighbours[node].end(),
                      [&](int other) { return !IsHost(fabric, other) || inside.contains(other); });
      if (only_theirs) switches.insert(node);
    }
  }
  inside.insert(switches.begin(), switches.end());
  CutRate rate;
  for (const Edge& edge : fabric.Edges()) {
    if (inside.contains(edge.from) == inside.contains(edge.to)) continue;
    (inside.contains(edge.from) ? rate.out : rate.in) += edge.bytes_per_second;
  }
  return rate;
}

}  // namespace harmonaize
