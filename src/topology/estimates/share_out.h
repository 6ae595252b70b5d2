#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace harmonaize {

/// What one of several wants of something that they share.
struct Claim {
  double wanted = 0;
  double weight = 1;  ///< Above 0.
  double floor = 0;
};

/// Divides `capacity` over claims by weight (max-min fairness): a claim for less than its share
/// gets what it wants, and leaves the rest to the others. None gets more than it wants, and none
/// less than its floor, if it wants so much. Floors that exceed the capacity together are lowered,
/// all in proportion.
std::vector<double> ShareOut(std::span<const Claim> claims, double capacity);

/// Claims that share as one with others, and then among themselves.
struct ClaimGroup {
  size_t claims = 0;  ///< Their number.
  double weight = 1;  ///< Of the group; above 0.
};
/// Divides `capacity` over groups, as ShareOut, and what each group gets over its claims: what one
/// of these leaves is for the others of its group first. Returns a share for each claim.
/// `claims` are in the order of `groups`; their weights count in their group.
std::vector<double> ShareOutInGroups(std::span<const Claim> claims,
                                     std::span<const ClaimGroup> groups, double capacity);

/// Returns by what a priority multiplies a weight: those of lower priority hardly count beside it,
/// but are not shut out.
double PriorityFactor(int priority);

/// Returns a weight without the factor of a priority. The terms of a flow do not tell the priority
/// that the provider has given to its tenant. So a weight that is as large as that of a priority
/// counts as one with a priority.
double WithoutPriority(double weight, int priority);

}  // namespace harmonaize
