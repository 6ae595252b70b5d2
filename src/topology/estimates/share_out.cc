#include "src/topology/estimates/share_out.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace harmonaize {
namespace {

/// Factor by which one step of priority multiplies a weight.
constexpr double kPriorityStep = 1000;

}  // namespace

double PriorityFactor(int priority) {
  return std::pow(kPriorityStep, static_cast<double>(priority));
}

double WithoutPriority(double weight, int priority) {
  weight /= PriorityFactor(priority);
  while (weight >= kPriorityStep) weight /= kPriorityStep;
  return std::max(weight, std::numeric_limits<double>::min());
}

// The share of a claim grows with a level, the same for all, from its floor on up to what it wants.
// The level is raised until the shares are the capacity together.
std::vector<double> ShareOut(std::span<const Claim> claims, double capacity) {
  double floors = 0;
  for (const Claim& claim : claims) floors += std::min(claim.floor, claim.wanted);
  const double scale = floors > capacity ? capacity / floors : 1;
  const auto least = [scale](const Claim& one) { return scale * std::min(one.floor, one.wanted); };

  struct Turn {
    double level = 0;
    double growth = 0;  // change of the growth of all shares, from this level on
  };
  std::vector<Turn> turns;
  turns.reserve(2 * claims.size());
  for (const Claim& claim : claims) {
    turns.push_back({least(claim) / claim.weight, claim.weight});
    turns.push_back({claim.wanted / claim.weight, -claim.weight});
  }
  std::sort(turns.begin(), turns.end(),
            [](const Turn& one, const Turn& other) { return one.level < other.level; });
  double level = 0;
  double growth = 0;
  double total = scale * floors;
  for (const Turn& turn : turns) {
    const double next = total + growth * (turn.level - level);
    if (next > capacity && growth > 0) {
      level += std::max(capacity - total, 0.0) / growth;
      break;
    }
    total = next;
    level = turn.level;
    growth += turn.growth;
  }
  std::vector<double> shares;
  shares.reserve(claims.size());
  for (const Claim& claim : claims) {
    shares.push_back(std::min(claim.wanted, std::max(least(claim), level * claim.weight)));
  }
  return shares;
}

std::vector<double> ShareOutInGroups(std::span<const Claim> claims,
                                     std::span<const ClaimGroup> groups, double capacity) {
  std::vector<Claim> sums;
  sums.reserve(groups.size());
  size_t next = 0;
  for (const ClaimGroup& group : groups) {
    Claim sum{.weight = group.weight};
    for (const Claim& claim : claims.subspan(next, group.claims)) {
      sum.wanted += claim.wanted;
      sum.floor += std::min(claim.floor, claim.wanted);
    }
    sums.push_back(sum);
    next += group.claims;
  }
  const std::vector<double> of_groups = ShareOut(sums, capacity);
  std::vector<double> shares;
  shares.reserve(claims.size());
  next = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].claims == 1) {
      shares.push_back(of_groups[g]);
      ++next;
      continue;
    }
    const std::vector<double> own = ShareOut(claims.subspan(next, groups[g].claims), of_groups[g]);
    shares.insert(shares.end(), own.begin(), own.end());
    next += groups[g].claims;
  }
  return shares;
}

}  // namespace harmonaize
