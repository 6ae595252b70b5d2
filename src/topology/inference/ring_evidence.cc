#include "src/topology/inference/ring_evidence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/topology/inference/rack_evidence.h"

namespace harmonaize {
namespace {

// Least and most share of two links' rate that one link has, with room for losses and noise.
constexpr double kOneLinkLeast = 0.35;
constexpr double kOneLinkMost = 0.7;

bool CouldBeRing(const ProbeSets& sets, const RackEvidence& evidence) {
  if (sets.planes().size() != 1 || sets.hosts() < 3) return false;
  const std::vector<std::vector<int>>& nics = evidence.plane.nics;
  if (static_cast<int>(nics.size()) != sets.hosts()) return false;
  for (const std::vector<int>& own : nics) {
    if (own.size() != 2) return false;
  }
  const std::vector<double> reached = evidence.reached.Known();
  return static_cast<int>(reached.size()) == sets.hosts() * (sets.hosts() - 1) / 2 &&
         *std::max_element(reached.begin(), reached.end()) < kOneLinkMost;
}

using Neighbours = std::vector<std::vector<int>>;

/// Returns the hosts around the one ring that the neighbours make; none if they make none.
std::vector<int> WalkAround(const Neighbours& neighbours) {
  std::vector<int> order = {0};
  int before = -1;
  while (order.size() <= neighbours.size()) {
    const std::vector<int>& here = neighbours[static_cast<size_t>(order.back())];
    if (here.size() != 2) return {};
    const int next = here[0] == before ? here[1] : here[0];
    before = order.back();
    if (next == 0) break;
    order.push_back(next);
  }
  return order.size() == neighbours.size() ? order : std::vector<int>();
}

/// Returns the order of the ring. All pairs known to have one link's rate are neighbours if that
/// makes a ring, as with three or four hosts. In longer rings, the two nearest by latency are.
std::vector<int> FindOrder(const RackEvidence& evidence, const PairMatrix& one_link) {
  const size_t n = evidence.plane.hosts.size();
  Neighbours by_rate(n);
  Neighbours by_latency(n);
  for (size_t a = 0; a < n; ++a) {
    std::vector<std::pair<double, int>> near;
    for (size_t b = 0; b < n; ++b) {
      if (a == b || one_link.at(a, b) != 1) continue;
      by_rate[a].push_back(static_cast<int>(b));
      near.emplace_back(evidence.round_trip.at(a, b), static_cast<int>(b));
    }
    std::sort(near.begin(), near.end());
    for (size_t i = 0; i < std::min<size_t>(2, near.size()); ++i) {
      by_latency[a].push_back(near[i].second);
    }
  }
  const std::vector<int> order = WalkAround(by_rate);
  if (!order.empty()) return order;
  for (size_t a = 0; a < n; ++a) {
    for (const int b : by_latency[a]) {
      const std::vector<int>& theirs = by_latency[static_cast<size_t>(b)];
      if (std::find(theirs.begin(), theirs.end(), static_cast<int>(a)) == theirs.end()) return {};
    }
  }
  return WalkAround(by_latency);
}

}  // namespace

RingEvidence LookForRing(const Measurements& measurements, const ProbeSets& sets,
                         const MeasuredSets& measured) {
  RingEvidence ring;
  if (sets.planes().size() != 1 || sets.hosts() > kFewHosts) return ring;
  const RackEvidence evidence = WeighEvidence(measurements, sets, measured, sets.planes()[0]);
  if (!CouldBeRing(sets, evidence)) return ring;
  PairMatrix one_link(evidence.plane.hosts.size());
  for (int a = 0; a < sets.hosts(); ++a) {
    for (int b = a + 1; b < sets.hosts(); ++b) {
      const TransferSet alone = sets.Alone(a, b);
      if (measured.Times(alone) == 0) {
        ring.missing = alone;
        return ring;
      }
      const size_t from = static_cast<size_t>(a);
      const size_t to = static_cast<size_t>(b);
      const double part = TotalRate(measured, alone, evidence.plane) /
                          std::min(evidence.sends[from], evidence.receives[to]);
      one_link.Set(from, to, part > kOneLinkLeast && part < kOneLinkMost ? 1 : 0);
    }
  }
  const std::vector<int> order = FindOrder(evidence, one_link);
  if (order.empty()) return ring;
  const TransferSet around = sets.Around(order);
  if (measured.Times(around) == 0) {
    ring.missing = around;
    return ring;
  }
  // In a wrong order, some transfers would share links and be slower than a lone link.
  const std::vector<double> rates = measured.Rates(around);
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t host = static_cast<size_t>(order[i]);
    if (rates[2 * i] + rates[2 * i + 1] < kSlow * evidence.sends[host]) return ring;
    ring.forth.push_back(rates[2 * i]);
    ring.back.push_back(rates[2 * i + 1]);
  }
  ring.order = order;
  return ring;
}

}  // namespace harmonaize
