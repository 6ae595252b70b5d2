#include "src/topology/fabric/fabric_routing.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace harmonaize {

FabricRouting::FabricRouting(const Fabric& fabric, std::vector<bool> down)
    : fabric_(fabric), down_(std::move(down)), edges_(fabric.Edges()) {
  leaving_.resize(fabric.nodes.size());
  for (size_t e = 0; e < edges_.size(); ++e) {
    leaving_[static_cast<size_t>(edges_[e].from)].push_back(static_cast<int>(e));
  }
  for (std::vector<int>& edges : leaving_) {
    std::sort(edges.begin(), edges.end(), [this](int a, int b) {
      return std::pair(edges_[static_cast<size_t>(a)].to, a) <
             std::pair(edges_[static_cast<size_t>(b)].to, b);
    });
  }
  for (size_t node = 0; node < fabric.nodes.size(); ++node) {
    first_endpoint_.push_back(distances_.size());
    for (size_t nic = 0; nic < fabric.nodes[node].nics.size(); ++nic) {
      Flood({static_cast<int>(node), static_cast<int>(nic)}, &distances_.emplace_back());
    }
  }
}

bool FabricRouting::Down(int link) const {
  return !down_.empty() && down_[static_cast<size_t>(link)];
}

bool FabricRouting::Passes(int node, int destination) const {
  return node == destination || fabric_.nodes[static_cast<size_t>(node)].forwards;
}

bool FabricRouting::EntersBy(int edge, Endpoint to) const {
  if (edges_[static_cast<size_t>(edge)].to != to.host) return true;
  return fabric_.nodes[static_cast<size_t>(to.host)].forwards || fabric_.NicAt(to).link == edge / 2;
}

int FabricRouting::FirstEdge(Endpoint from) const {
  const int link = fabric_.NicAt(from).link;
  const LinkEnd& end = fabric_.links[static_cast<size_t>(link)].ends[0];
  return 2 * link + (end.node == from.host && end.nic == from.nic ? 0 : 1);
}

size_t FabricRouting::IndexOf(Endpoint to) const {
  return first_endpoint_[static_cast<size_t>(to.host)] + static_cast<size_t>(to.nic);
}

// Searches breadth first, from the destination backwards.
void FabricRouting::Flood(Endpoint to, std::vector<int>* distances) const {
  distances->assign(fabric_.nodes.size(), -1);
  (*distances)[static_cast<size_t>(to.host)] = 0;
  std::deque<int> reached = {to.host};
  while (!reached.empty()) {
    const int node = reached.front();
    reached.pop_front();
    if (!Passes(node, to.host)) continue;
    for (const int edge : leaving_[static_cast<size_t>(node)]) {
      const int back = edge ^ 1;
      const int before = edges_[static_cast<size_t>(edge)].to;
      if (Down(edge / 2) || !EntersBy(back, to)) continue;
      if ((*distances)[static_cast<size_t>(before)] >= 0) continue;
      (*distances)[static_cast<size_t>(before)] = (*distances)[static_cast<size_t>(node)] + 1;
      reached.push_back(before);
    }
  }
}

int FabricRouting::Distance(int node, Endpoint to) const {
  return distances_[IndexOf(to)][static_cast<size_t>(node)];
}

std::vector<int> FabricRouting::NextHops(int node, Endpoint to) const {
  std::vector<int> hops;
  const int distance = Distance(node, to);
  if (distance <= 0) return hops;
  for (const int edge : leaving_[static_cast<size_t>(node)]) {
    const int next = edges_[static_cast<size_t>(edge)].to;
    if (!Down(edge / 2) && EntersBy(edge, to) && Passes(next, to.host) &&
        Distance(next, to) == distance - 1) {
      hops.push_back(edge);
    }
  }
  return hops;
}

int FabricRouting::ExplicitNextHop(int node, Endpoint to, int path) const {
  const std::vector<int> hops = NextHops(node, to);
  if (hops.empty()) return -1;
  if (static_cast<size_t>(path) < fabric_.preferences.size()) {
    const std::vector<int>& through = fabric_.preferences[static_cast<size_t>(path)].through;
    for (const int edge : hops) {
      const int next = edges_[static_cast<size_t>(edge)].to;
      if (std::find(through.begin(), through.end(), next) != through.end()) return edge;
    }
  }
  return hops[static_cast<size_t>(path) % hops.size()];
}

int FabricRouting::NicTowards(int host, Endpoint to) const {
  int nearest = -1;
  int nearest_distance = -1;
  const size_t nics = fabric_.nodes[static_cast<size_t>(host)].nics.size();
  for (size_t i = 0; i < nics; ++i) {
    const int nic = static_cast<int>(i);
    const int edge = FirstEdge({host, nic});
    const int next = edges_[static_cast<size_t>(edge)].to;
    const int distance = Distance(next, to);
    if (Down(edge / 2) || distance < 0 || !EntersBy(edge, to) || !Passes(next, to.host)) continue;
    const bool nearer = nearest < 0 || distance < nearest_distance;
    if (nearer || (distance == nearest_distance && nic == to.nic)) {
      nearest = nic;
      nearest_distance = distance;
    }
  }
  return nearest;
}

void FabricRouting::Extend(Endpoint to, size_t most, Route* way, std::vector<Route>* found) const {
  const int node = edges_[static_cast<size_t>(way->back())].to;
  if (node == to.host) {
    found->push_back(*way);
    return;
  }
  for (const int edge : NextHops(node, to)) {
    if (found->size() >= most) return;
    way->push_back(edge);
    Extend(to, most, way, found);
    way->pop_back();
  }
}

std::vector<Route> FabricRouting::EqualCostRoutes(Endpoint from, Endpoint to, size_t most) const {
  std::vector<Route> found;
  if (from.host == to.host) return found;
  std::vector<int> starts = {FirstEdge(from)};
  if (fabric_.nodes[static_cast<size_t>(from.host)].forwards) starts = NextHops(from.host, to);
  for (const int edge : starts) {
    const int next = edges_[static_cast<size_t>(edge)].to;
    if (found.size() >= most || Down(edge / 2)) continue;
    if (Distance(next, to) < 0 || !EntersBy(edge, to) || !Passes(next, to.host)) continue;
    Route way = {edge};
    Extend(to, most, &way, &found);
  }
  return found;
}

Route FabricRouting::ExplicitRoute(Endpoint from, Endpoint to, int path) const {
  if (from.host == to.host) return {};
  int edge = FirstEdge(from);
  if (fabric_.nodes[static_cast<size_t>(from.host)].forwards) {
    edge = ExplicitNextHop(from.host, to, path);
  } else if (Down(edge / 2)) {
    edge = -1;
  }
  Route way;
  while (edge >= 0) {
    const int next = edges_[static_cast<size_t>(edge)].to;
    if (!EntersBy(edge, to) || !Passes(next, to.host)) return {};
    way.push_back(edge);
    if (next == to.host) return way;
    edge = ExplicitNextHop(next, to, path);
  }
  return {};
}

int FabricRouting::Fanout() const {
  size_t most = 0;
  for (const Endpoint& to : fabric_.Endpoints()) {
    for (size_t node = 0; node < fabric_.nodes.size(); ++node) {
      if (!fabric_.nodes[node].forwards) continue;
      most = std::max(most, NextHops(static_cast<int>(node), to).size());
    }
  }
  return static_cast<int>(most);
}

}  // namespace harmonaize
