#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/planner/host_costs.h"
#include "src/planner/host_load.h"

namespace harmonaize {

/// Evidence of how far measured costs can be trusted.
struct CostEvidence {
  /// Number of rounds measured, and number of these that agreed on every cost.
  int rounds = 0;
  int agreed = 0;
  HostLoad load = {};
  /// Why the costs are unsure, for people. Costs without a doubt are sure.
  std::vector<std::string> doubts = {};

  bool sure() const { return doubts.empty(); }
};

struct MeasuredCosts {
  /// The costs, which are plausible whatever was measured.
  HostCosts costs;
  CostEvidence evidence;
};

/// Asked repeatedly during a measurement, with the load so far; returning false ends it.
using GoOn = std::function<bool(const HostLoad& so_far)>;

/// The operations from which a measurement in rounds is composed.
struct RoundMeans {
  /// Measures one round, as MeasureHostCosts does.
  std::function<Result<HostCosts>(const std::function<bool()>& go_on)> measure;
  /// Looks at the load. Returns the load of all looks so far.
  std::function<Result<HostLoad>()> look;
  /// Lets time pass between two rounds.
  std::function<void()> pause;
};

/// Combines rounds, of which there is at least one, into costs. The best value of a cost counts,
/// because other programs can only slow a round down, and the second best confirms it, if it comes
/// near. One that is better than three others, which agree with each other, counts as a fluke; they
/// count. Values that no host can have are left out. A cost that has no other values is replaced by
/// its typical value. Every cost for which that, or no second value, was found is a doubt, and so
/// is a heavy load.
MeasuredCosts JudgeRounds(std::span<const HostCosts> rounds, const HostLoad& load);

/// Measures in rounds that are spread in time, until they agree, for half a second at most on an
/// idle host. Under a heavy load there is one round: more would be worth as little, and take ten
/// times as long.
/// Errors: those of `means`, and kInProgress if `go_on` said no.
Result<MeasuredCosts> MeasureInRounds(const RoundMeans& means, const GoOn& go_on);

/// Calls MeasureInRounds for this host.
Result<MeasuredCosts> MeasureHost(size_t last_level_bytes, const GoOn& go_on);

}  // namespace harmonaize
