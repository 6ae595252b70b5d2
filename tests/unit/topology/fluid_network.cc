#include "tests/unit/topology/fluid_network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace harmonaize {
namespace {

/// All rise together until a link is full; those that cross it stay, and the others go on.
std::vector<double> ShareMaxMin(const std::vector<Route>& routes, const std::vector<Edge>& edges) {
  std::vector<double> left;
  for (const Edge& edge : edges) left.push_back(edge.bytes_per_second);
  std::vector<double> rates(routes.size());
  std::vector<bool> rising(routes.size(), true);
  for (;;) {
    std::vector<double> crossing(edges.size());
    for (size_t i = 0; i < routes.size(); ++i) {
      for (const int edge : routes[i]) crossing[static_cast<size_t>(edge)] += rising[i] ? 1 : 0;
    }
    double rise = std::numeric_limits<double>::infinity();
    for (size_t e = 0; e < edges.size(); ++e) {
      if (crossing[e] > 0) rise = std::min(rise, left[e] / crossing[e]);
    }
    if (std::isinf(rise)) return rates;
    for (size_t e = 0; e < edges.size(); ++e) left[e] -= rise * crossing[e];
    for (size_t i = 0; i < routes.size(); ++i) {
      if (!rising[i]) continue;
      rates[i] += rise;
      for (const int edge : routes[i]) {
        const size_t e = static_cast<size_t>(edge);
        if (left[e] <= 1e-9 * edges[e].bytes_per_second) rising[i] = false;
      }
    }
  }
}

}  // namespace

double FluidNetwork::Noisy(double value, double deviation) {
  return value * std::max(0.05, 1 + std::normal_distribution(0.0, deviation)(random_));
}

Route FluidNetwork::RouteOf(const TransferRequest& request) {
  const std::vector<Route> routes =
      routing_.EqualCostRoutes(InFabric(request.from), InFabric(request.to));
  return routes[std::uniform_int_distribution<size_t>(0, routes.size() - 1)(random_)];
}

std::vector<double> FluidNetwork::Rates(const TransferSet& set) {
  std::vector<Route> routes;
  std::vector<size_t> of;
  for (size_t i = 0; i < set.size(); ++i) {
    for (int c = 0; c < set[i].connections; ++c) {
      routes.push_back(RouteOf(set[i]));
      of.push_back(i);
    }
  }
  const std::vector<double> shares = ShareMaxMin(routes, fabric_.Edges());
  std::vector<double> rates(set.size());
  for (size_t i = 0; i < shares.size(); ++i) rates[of[i]] += shares[i];
  for (double& rate : rates) rate = Noisy(rate, noise_.rate);
  return rates;
}

RoundTrip FluidNetwork::RoundTripOf(Endpoint from, Endpoint to) {
  RoundTrip trip{.from = from, .to = to, .seconds = {}};
  const std::vector<Route> routes = routing_.EqualCostRoutes(InFabric(from), InFabric(to), 1);
  trip.reachable = !routes.empty();
  if (!trip.reachable) return trip;
  double seconds = 10e-6 + 2 * noise_.seconds_of_link * static_cast<double>(routes[0].size());
  if (std::uniform_real_distribution(0.0, 1.0)(random_) < noise_.bad_round_trips) seconds *= 3;
  if (noise_.pace) seconds *= noise_.pace(sampled_);
  ++sampled_;
  for (int i = 0; i < 30; ++i) {
    // Some wait for a processor.
    const double wait = i % 3 == 0 ? std::exponential_distribution(1 / 20e-6)(random_) : 0;
    trip.seconds.push_back(Noisy(seconds, noise_.round_trip) + wait);
  }
  return trip;
}

Measurements FluidNetwork::NothingMeasured() const {
  Measurements measurements;
  for (const int host : fabric_.Hosts()) {
    const Node& node = fabric_.nodes[static_cast<size_t>(host)];
    ProbedHost& probed = measurements.hosts.emplace_back();
    probed.name = node.name;
    for (const Nic& nic : node.nics) probed.nics.push_back({nic.device, nic.address});
  }
  return measurements;
}

void FluidNetwork::CarryOut(const NextMeasurements& next, Measurements* measurements) {
  for (const auto& [from, to] : next.round_trips) {
    measurements->round_trips.push_back(RoundTripOf(from, to));
  }
  if (next.transfers.empty()) return;
  const std::vector<double> rates = Rates(next.transfers);
  ConcurrentTransfers& set = measurements->concurrent.emplace_back();
  for (size_t i = 0; i < rates.size(); ++i) {
    const TransferRequest& one = next.transfers[i];
    set.push_back({one.from, one.to, one.connections, rates[i]});
  }
}

Measurements FluidNetwork::Probe(const ProbeOptions& options) {
  Measurements measurements = NothingMeasured();
  for (;;) {
    const NextMeasurements next = NextProbes(measurements, options);
    if (next.empty()) return measurements;
    CarryOut(next, &measurements);
  }
}

}  // namespace harmonaize
