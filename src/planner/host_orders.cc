#include "src/planner/host_orders.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "src/planner/edge_loads.h"

namespace harmonaize {
namespace {

/// Returns the seconds for a byte that a ring costs the busiest edge, and all edges together.
std::pair<double, double> RingCost(const FabricModel& model, const std::vector<int>& order,
                                   LoadSpread* spread) {
  std::vector<Load> loads;
  for (size_t i = 0; i < order.size(); ++i) {
    loads.push_back({.from_host = order[i], .to_host = order[(i + 1) % order.size()], .blocks = 1});
  }
  const std::vector<EdgeLoad> edges = spread->Expected(loads);
  std::pair<double, double> cost(0, 0);
  for (size_t e = 0; e < edges.size(); ++e) {
    const double seconds = edges[e].blocks / model.BytesPerSecond(static_cast<int>(e));
    cost.first = std::max(cost.first, seconds);
    cost.second += seconds;
  }
  return cost;
}

bool Better(const std::pair<double, double>& a, const std::pair<double, double>& b) {
  // A smaller gain is noise of the arithmetic.
  constexpr double kGain = 1 - 1e-9;
  if (a.first < b.first * kGain) return true;
  return a.first <= b.first && a.second < b.second * kGain;
}

}  // namespace

HostOrder GivenOrder(const Problem& problem) {
  HostOrder order{.name = "given", .hosts = {}};
  std::set<int> seen;
  for (const int host : problem.host_of_rank) {
    if (seen.insert(host).second) order.hosts.push_back(host);
  }
  return order;
}

HostOrder OrderByRack(const FabricModel& model, const Problem& problem) {
  HostOrder order{.name = "by rack", .hosts = GivenOrder(problem).hosts};
  std::map<int, int> place;  // by rack
  for (const int host : order.hosts) {
    place.emplace(model.RackOf(host), static_cast<int>(place.size()));
  }
  std::stable_sort(order.hosts.begin(), order.hosts.end(), [&](int a, int b) {
    return place.at(model.RackOf(a)) < place.at(model.RackOf(b));
  });
  return order;
}

HostOrder SearchedOrder(const FabricModel& model, const Problem& problem) {
  HostOrder best{.name = "searched", .hosts = OrderByRack(model, problem).hosts};
  LoadSpread spread(model, PathUse::kWeighted);
  std::pair<double, double> best_cost = RingCost(model, best.hosts, &spread);
  for (bool found = true; found;) {
    found = false;
    std::vector<int> order = best.hosts;
    // A ring has no beginning: the first host stays.
    for (size_t i = 1; i < order.size(); ++i) {
      for (size_t j = i + 1; j < order.size(); ++j) {
        std::swap(order[i], order[j]);
        const std::pair<double, double> cost = RingCost(model, order, &spread);
        if (Better(cost, best_cost)) {
          best_cost = cost;
          best.hosts = order;
          found = true;
        }
        std::swap(order[i], order[j]);
      }
    }
  }
  return best;
}

std::vector<std::vector<int>> GroupsByRack(const FabricModel& model, const Problem& problem) {
  std::vector<std::vector<int>> groups;
  std::map<int, size_t> number;  // by rack
  const std::vector<int> hosts = GivenOrder(problem).hosts;
  for (const int host : hosts) {
    const auto [known, is_new] = number.emplace(model.RackOf(host), groups.size());
    if (is_new) groups.emplace_back();
    groups[known->second].push_back(host);
  }
  if (groups.size() < 2 || groups.size() == hosts.size()) groups.clear();
  return groups;
}

}  // namespace harmonaize
