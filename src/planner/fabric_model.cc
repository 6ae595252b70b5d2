#include "src/planner/fabric_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace harmonaize {
namespace {

// Limit of a capacity: CheckCapacityGraph's, with room for rounding up.
constexpr int64_t kMostCapacity = int64_t{1} << 35;
// Largest weight of a lane: finer ones would need more slices of a message than there are.
constexpr int64_t kMostWeight = 32;
// Relative error of weights that is accepted for the sake of smaller ones.
constexpr double kWeightError = 0.02;

int64_t WeightOf(int64_t capacity, int64_t most, int64_t most_weight) {
  return (capacity * most_weight + most / 2) / most;
}

/// Returns the relative error of the lane whose weight is off most.
double ErrorOf(const std::vector<int64_t>& capacities, int64_t most, int64_t most_weight) {
  double error = 0;
  for (const int64_t capacity : capacities) {
    const double wanted = static_cast<double>(capacity * most_weight) / static_cast<double>(most);
    const auto weight = static_cast<double>(WeightOf(capacity, most, most_weight));
    error = std::max(error, std::abs(weight - wanted) / wanted);
  }
  return error;
}

/// Gives lanes the smallest weights that are near to what they carry. Lanes that carry so little
/// that messages on them would always be late are left out.
void Weigh(std::vector<Lane>* lanes, std::vector<int64_t> capacities) {
  const int64_t most = *std::max_element(capacities.begin(), capacities.end());
  const auto carries = [&](int64_t capacity) { return WeightOf(capacity, most, kMostWeight) > 0; };
  size_t kept = 0;
  for (size_t i = 0; i < lanes->size(); ++i) {
    if (!carries(capacities[i])) continue;
    (*lanes)[kept] = (*lanes)[i];
    capacities[kept++] = capacities[i];
  }
  lanes->resize(kept);
  capacities.resize(kept);
  int64_t best = kMostWeight;
  for (int64_t weight = kMostWeight; weight >= 1; --weight) {
    const double error = ErrorOf(capacities, most, weight);
    if (error <= std::max(kWeightError, ErrorOf(capacities, most, best))) best = weight;
  }
  for (size_t i = 0; i < kept; ++i) {
    (*lanes)[i].weight =
        static_cast<int>(std::max<int64_t>(WeightOf(capacities[i], most, best), 1));
  }
}

}  // namespace

std::string_view PathUseName(PathUse use) {
  switch (use) {
    case PathUse::kEcmp: return "ecmp";
    case PathUse::kEven: return "even";
    case PathUse::kWeighted: return "weighted";
  }
  return "unknown";
}

FabricModel::FabricModel(Fabric fabric)
    : fabric_(std::move(fabric)), hosts_(fabric_.Hosts()), edges_(fabric_.Edges()) {
  leaving_.resize(fabric_.nodes.size());
  for (size_t e = 0; e < edges_.size(); ++e) {
    rates_.push_back(edges_[e].bytes_per_second);
    leaving_[static_cast<size_t>(edges_[e].from)].push_back(static_cast<int>(e));
  }
  for (std::vector<int>& edges : leaving_) {
    std::sort(edges.begin(), edges.end(),
              [this](int a, int b) { return std::pair(HeadOf(a), a) < std::pair(HeadOf(b), b); });
  }
  FindUnit();
  FindTargets();
  FindKinds();
  FindRacks();
}

int FabricModel::HostNamed(std::string_view name) const {
  for (int host = 0; host < hosts(); ++host) {
    if (HostName(host) == name) return host;
  }
  return -1;
}

int FabricModel::EdgeOut(int host, int nic) const {
  const int link = NodeOf(host).nics[static_cast<size_t>(nic)].link;
  const LinkEnd& end = fabric_.links[static_cast<size_t>(link)].ends[0];
  return 2 * link + (end.node == hosts_[static_cast<size_t>(host)] && end.nic == nic ? 0 : 1);
}

int FabricModel::PortOf(int host, int nic) const {
  if (NodeOf(host).forwards) return hosts_[static_cast<size_t>(host)];
  return HeadOf(EdgeOut(host, nic));
}

void FabricModel::FindTargets() {
  target_of_node_.assign(fabric_.nodes.size(), -1);
  for (int host = 0; host < hosts(); ++host) {
    for (size_t nic = 0; nic < NodeOf(host).nics.size(); ++nic) {
      const int port = PortOf(host, static_cast<int>(nic));
      int& target = target_of_node_[static_cast<size_t>(port)];
      if (target >= 0 || !fabric_.nodes[static_cast<size_t>(port)].forwards) continue;
      target = static_cast<int>(targets_.size());
      targets_.push_back(port);
    }
  }
  for (const int target : targets_) FindWays(target);
}

// Searches breadth first, from the target backwards, through nodes that forward.
void FabricModel::FindWays(int target) {
  const size_t base = distances_.size();
  distances_.resize(base + fabric_.nodes.size(), -1);
  carried_.resize(base + fabric_.nodes.size(), 0);
  hops_.resize(base + fabric_.nodes.size());
  const auto distance = [&](int node) -> int& {
    return distances_[base + static_cast<size_t>(node)];
  };
  std::vector<int> reached = {target};
  distance(target) = 0;
  for (size_t next = 0; next < reached.size(); ++next) {
    for (const int edge : leaving_[static_cast<size_t>(reached[next])]) {
      const int before = HeadOf(edge);
      if (distance(before) >= 0 || !fabric_.nodes[static_cast<size_t>(before)].forwards) continue;
      distance(before) = distance(reached[next]) + 1;
      reached.push_back(before);
    }
  }
  for (const int node : reached) {
    Hops& hops = hops_[base + static_cast<size_t>(node)];
    hops.first = pool_.size();
    double& carried = carried_[base + static_cast<size_t>(node)];
    if (node == target) carried = std::numeric_limits<double>::infinity();
    if (node == target) continue;
    for (const int edge : leaving_[static_cast<size_t>(node)]) {
      if (distance(HeadOf(edge)) != distance(node) - 1) continue;
      pool_.push_back(edge);
      // Nodes nearer to the target have had their turn.
      carried += std::min(BytesPerSecond(edge), carried_[base + static_cast<size_t>(HeadOf(edge))]);
    }
    hops.count = pool_.size() - hops.first;
  }
}

std::vector<int> FabricModel::PortsOf(int host) const {
  std::vector<int> ports;
  for (size_t nic = 0; nic < NodeOf(host).nics.size(); ++nic) {
    ports.push_back(PortOf(host, static_cast<int>(nic)));
  }
  // A cable between two hosts joins no other hosts, so the host is alone in its kind.
  const bool cable = std::any_of(ports.begin(), ports.end(), [this](int port) {
    return target_of_node_[static_cast<size_t>(port)] < 0;
  });
  if (cable) ports.push_back(-1 - host);
  return ports;
}

void FabricModel::FindKinds() {
  using Kind = std::pair<std::vector<int>, std::vector<double>>;  // ports, rates out and in
  std::map<Kind, int> kinds;
  for (int host = 0; host < hosts(); ++host) {
    std::vector<double> rates;
    for (size_t nic = 0; nic < NodeOf(host).nics.size(); ++nic) {
      const int edge = EdgeOut(host, static_cast<int>(nic));
      rates.push_back(BytesPerSecond(edge));
      rates.push_back(BytesPerSecond(edge ^ 1));
    }
    const auto number = static_cast<int>(kinds.size());
    kind_of_host_.push_back(
        kinds.emplace(Kind(PortsOf(host), std::move(rates)), number).first->second);
  }
  kinds_ = static_cast<int>(kinds.size());
}

void FabricModel::FindRacks() {
  const bool named = std::all_of(hosts_.begin(), hosts_.end(), [this](int node) {
    return fabric_.nodes[static_cast<size_t>(node)].rack >= 0;
  });
  std::map<std::vector<int>, int> numbers;
  for (int host = 0; host < hosts(); ++host) {
    std::vector<int> place = {NodeOf(host).rack};
    if (!named) place = PortsOf(host);
    const auto number = static_cast<int>(numbers.size());
    rack_of_host_.push_back(numbers.emplace(std::move(place), number).first->second);
  }
}

void FabricModel::FindUnit() {
  int64_t common = 0;
  for (const double rate : rates_) {
    capacities_.push_back(std::max<int64_t>(1, std::llround(rate * 8)));
    common = std::gcd(common, capacities_.back());
  }
  int64_t total = 0;
  for (int64_t& capacity : capacities_) total += capacity /= std::max<int64_t>(common, 1);
  const int64_t divisor = total / kMostCapacity + 1;
  for (int64_t& capacity : capacities_) capacity = std::max<int64_t>(1, capacity / divisor);
  unit_ = static_cast<double>(std::max<int64_t>(common, 1)) * static_cast<double>(divisor) / 8;
}

CapacityGraph FabricModel::GraphFor(const HostPlacement& placement) const {
  CapacityGraph graph;
  graph.host_of_node.assign(fabric_.nodes.size(), -1);
  for (int host = 0; host < hosts(); ++host) {
    const bool is_switch = NodeOf(host).forwards && placement.PositionOfHost(host) < 0;
    if (is_switch) continue;
    graph.host_of_node[static_cast<size_t>(hosts_[static_cast<size_t>(host)])] = host;
  }
  std::map<std::pair<int, int>, size_t> known;
  for (size_t e = 0; e < edges_.size(); ++e) {
    const auto [edge, is_new] =
        known.emplace(std::pair(edges_[e].from, edges_[e].to), graph.edges.size());
    if (is_new) graph.edges.push_back({edges_[e].from, edges_[e].to, 0});
    graph.edges[edge->second].capacity += capacities_[e];
  }
  return graph;
}

FabricModel::Way FabricModel::WayBy(int from, int to, int from_nic, int to_nic) const {
  Way way;
  way.start = hosts_[static_cast<size_t>(from)];
  if (!NodeOf(from).forwards) {
    way.first = EdgeOut(from, from_nic);
    way.start = HeadOf(way.first);
  }
  way.target = hosts_[static_cast<size_t>(to)];
  if (!NodeOf(to).forwards) {
    const int back = EdgeOut(to, to_nic);
    if (way.first == (back ^ 1)) return {.first = way.first};
    way.last = back ^ 1;
    way.target = HeadOf(back);
  }
  return way;
}

bool FabricModel::Leads(const Way& way) const {
  return way.target < 0 ? way.first >= 0 : Distance(way.start, way.target) >= 0;
}

int FabricModel::Distance(int node, int target) const {
  const int index = target_of_node_[static_cast<size_t>(target)];
  if (index < 0) return -1;
  return distances_[static_cast<size_t>(index) * fabric_.nodes.size() + static_cast<size_t>(node)];
}

double FabricModel::CarriedTo(int node, int target) const {
  const auto index = static_cast<size_t>(target_of_node_[static_cast<size_t>(target)]);
  return carried_[index * fabric_.nodes.size() + static_cast<size_t>(node)];
}

std::span<const int> FabricModel::NextHops(int node, int target) const {
  const auto index = static_cast<size_t>(target_of_node_[static_cast<size_t>(target)]);
  const Hops& hops = hops_[index * fabric_.nodes.size() + static_cast<size_t>(node)];
  return std::span<const int>(pool_).subspan(hops.first, hops.count);
}

int FabricModel::ChooseExplicit(std::span<const int> hops, int path) const {
  if (static_cast<size_t>(path) < fabric_.preferences.size()) {
    const std::vector<int>& through = fabric_.preferences[static_cast<size_t>(path)].through;
    for (const int edge : hops) {
      if (std::find(through.begin(), through.end(), HeadOf(edge)) != through.end()) return edge;
    }
  }
  return hops[static_cast<size_t>(path) % hops.size()];
}

Route FabricModel::RouteOf(int from, int to, const Lane& lane) const {
  const Way way = WayBy(from, to, lane.from_nic, lane.to_nic);
  Route route;
  if (!Leads(way)) return route;
  if (way.first >= 0) route.push_back(way.first);
  int node = way.start;
  while (way.target >= 0 && node != way.target) {
    const std::span<const int> hops = NextHops(node, way.target);
    const int edge = lane.path < 0 ? hops[0] : ChooseExplicit(hops, lane.path);
    route.push_back(edge);
    node = HeadOf(edge);
  }
  if (way.last >= 0) route.push_back(way.last);
  return route;
}

FabricModel::CertainRoute FabricModel::CertainRouteOf(int from, int to, const Lane& lane) const {
  const Way way = WayBy(from, to, lane.from_nic, lane.to_nic);
  if (lane.path >= 0 || !MayDivide(way)) {
    Route route = RouteOf(from, to, lane);
    const bool whole = !route.empty();
    return {std::move(route), whole};
  }
  CertainRoute certain;
  if (way.first >= 0) certain.edges.push_back(way.first);
  if (way.last >= 0) certain.edges.push_back(way.last);
  return certain;
}

std::vector<Lane> FabricModel::RailsBetween(int from, int to) const {
  const int sending = NodeOf(from).forwards ? 1 : static_cast<int>(NodeOf(from).nics.size());
  const int receiving = NodeOf(to).forwards ? 1 : static_cast<int>(NodeOf(to).nics.size());
  std::vector<Lane> rails;
  for (int rail = 0; rail < std::max(sending, receiving); ++rail) {
    const Lane lane{.from_nic = rail % sending, .to_nic = rail % receiving};
    if (Leads(WayBy(from, to, lane.from_nic, lane.to_nic))) rails.push_back(lane);
  }
  for (int pair = 0; rails.empty() && pair < sending * receiving; ++pair) {
    const Lane lane{.from_nic = pair / receiving, .to_nic = pair % receiving};
    if (Leads(WayBy(from, to, lane.from_nic, lane.to_nic))) rails.push_back(lane);
  }
  return rails;
}

/// The capacity of an explicit path is its narrowest link's; otherwise all ways together count as
/// one link.
int64_t FabricModel::CapacityOf(const Way& way, const Route& route, int path) const {
  int64_t least = kMostCapacity;
  for (const int edge : route) {
    const bool between = edge != way.first && edge != way.last;
    if (path >= 0 || !between) least = std::min(least, capacities_[static_cast<size_t>(edge)]);
  }
  if (path >= 0 || way.target < 0 || way.start == way.target) return least;
  const double together = CarriedTo(way.start, way.target) / unit_;
  return together < static_cast<double>(least) ? std::max<int64_t>(1, std::llround(together))
                                               : least;
}

bool FabricModel::MayDivide(const Way& way) const {
  for (int node = way.start; way.target >= 0 && node != way.target;) {
    const std::span<const int> hops = NextHops(node, way.target);
    if (hops.empty()) return false;
    const int next = HeadOf(hops[0]);
    const bool switches = fabric_.nodes[static_cast<size_t>(node)].kind != NodeKind::kHost &&
                          fabric_.nodes[static_cast<size_t>(next)].kind != NodeKind::kHost;
    if (hops.size() > 1 || switches) return true;
    node = next;
  }
  return false;
}

std::vector<FabricModel::WeighedLane> FabricModel::AllLanes(int from, int to) const {
  std::vector<WeighedLane> lanes;
  for (const Lane& rail : RailsBetween(from, to)) {
    const size_t first = lanes.size();
    for (int path = 0; path < std::max(fabric_.explicit_paths, 1); ++path) {
      const Way way = WayBy(from, to, rail.from_nic, rail.to_nic);
      Lane lane = rail;
      lane.path = fabric_.explicit_paths > 0 ? path : -1;
      lane.spread = lane.path < 0 && MayDivide(way);
      Route route = RouteOf(from, to, lane);
      const bool known =
          std::any_of(lanes.begin() + static_cast<std::ptrdiff_t>(first), lanes.end(),
                      [&](const WeighedLane& one) { return one.route == route; });
      if (known) continue;
      const int64_t capacity = CapacityOf(way, route, lane.path);
      lanes.push_back({lane, capacity, std::move(route)});
    }
  }
  return lanes;
}

std::vector<Lane> FabricModel::Lanes(int from, int to, PathUse use) const {
  if (use == PathUse::kEcmp) return RailsBetween(from, to);
  const std::vector<WeighedLane> all = AllLanes(from, to);
  std::vector<Lane> lanes;
  std::vector<int64_t> capacities;
  for (const WeighedLane& one : all) {
    lanes.push_back(one.lane);
    capacities.push_back(one.capacity);
  }
  if (use == PathUse::kWeighted && !lanes.empty()) Weigh(&lanes, std::move(capacities));
  return lanes;
}

bool FabricModel::AlwaysThrough(const Way& way, const std::vector<int>& nodes) const {
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    const bool ends = i == 0 ? way.first >= 0 : i + 2 == nodes.size() && way.last >= 0;
    if (ends || way.target < 0) continue;
    for (const int edge : NextHops(nodes[i], way.target)) {
      if (HeadOf(edge) != nodes[i + 1]) return false;
    }
  }
  return true;
}

std::vector<Lane> FabricModel::LanesThrough(int from, int to, const std::vector<int>& nodes) const {
  std::vector<Lane> lanes;
  std::vector<int64_t> capacities;
  for (const WeighedLane& one : AllLanes(from, to)) {
    std::vector<int> these = {hosts_[static_cast<size_t>(from)]};
    for (const int edge : one.route) these.push_back(HeadOf(edge));
    const Way way = WayBy(from, to, one.lane.from_nic, one.lane.to_nic);
    if (these != nodes || (one.lane.path < 0 && !AlwaysThrough(way, nodes))) continue;
    lanes.push_back(one.lane);
    capacities.push_back(one.capacity);
  }
  if (!lanes.empty()) Weigh(&lanes, std::move(capacities));
  return lanes;
}

double FabricModel::LatencyOf(const Route& route, double unknown) const {
  double seconds = 0;
  for (const int edge : route) {
    const double stated = edges_[static_cast<size_t>(edge)].latency_seconds;
    seconds += stated > 0 ? stated : unknown;
  }
  return seconds;
}

}  // namespace harmonaize
