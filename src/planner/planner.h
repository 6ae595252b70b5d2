#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/planner/cost_model.h"
#include "src/planner/fabric_model.h"
#include "src/planner/host_orders.h"
#include "src/schedule/algorithms/algorithms.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

// Chooses how a collective is carried out on a fabric: of all algorithms, host orders, groups, cuts
// into pieces and uses of paths, what is predicted to be done first. docs/planning.md tells how.
//
// Every daemon plans for itself, and all have to come to the same: a planner's answer depends on
// its arguments alone, not on the machine, the time or the order of anything unordered.

enum class PlanPolicy {
  kAdaptive = 0,  ///< The least predicted time.
  /// A ring in the order of the ranks, decided once, on whatever ways ECMP gives: what NCCL does.
  /// Where there is no ring: the chain in that order, or each block straight to its host.
  kStaticRing,
  kFixed,  ///< What the operator says (plan_file.h).
};
inline constexpr int kPlanPolicyCount = 3;
/// "adaptive", "static-ring", "fixed".
std::string_view PlanPolicyName(PlanPolicy policy);
/// None if there is no policy of this name.
std::optional<PlanPolicy> FindPlanPolicy(std::string_view name);

/// All that decides which schedule is run, and on which ways.
struct PlanSpec {
  const Algorithm* algorithm = nullptr;
  HostOrder order = {};  ///< Without hosts where the algorithm takes no order.
  std::string groups_name = {};
  std::vector<std::vector<int>> groups = {};
  int pieces = 1;  ///< AlgorithmOptions::pieces.
  PathUse paths = PathUse::kWeighted;
};

struct PlannerOptions {
  PlanPolicy policy = PlanPolicy::kAdaptive;
  PlanSpec fixed = {};        ///< For PlanPolicy::kFixed.
  bool reproducible = false;  ///< Only algorithms that reduce in rank order.
  NetworkCosts costs = {};
  /// More hosts than this are not packed trees for: the time grows with a high power.
  int most_packed_hosts = 24;
  /// Nor are orders searched for, ...
  int most_searched_hosts = 12;
  /// ... nor algorithms considered of which a host exchanges with all others in rank order.
  int most_rank_order_hosts = 128;
};

/// What the planner chooses from.
struct Candidate {
  PlanSpec spec;  ///< With pieces left to PlannedSize, unless the operator states them.
  Footprint footprint = {};
  LaneTable lanes = {};  ///< Of the messages that name a path.
};

/// What was not considered, for people.
struct NotConsidered {
  std::string what;
  std::string why;
};

struct RankedPlan {
  size_t candidate = 0;
  int pieces = 1;  ///< Of the schedule.
  SliceCut slice;  ///< How the executor is to cut its blocks, ...
  int slices = 1;  ///< ... and how many that are.
  Prediction prediction;
};

/// The plans for one size class.
struct PlannedSize {
  uint64_t bytes = 0;        ///< Of one unit: `count` times the type's size.
  double bound_seconds = 0;  ///< BoundSecondsPerByte * bytes.
  /// The least time first, each candidate once, with the cut into slices that suits it best. The
  /// first is the choice; candidates come in a fixed order, and of equals the first wins.
  std::vector<RankedPlan> plans = {};
};

/// How the messages from a host to another by a Step::path (-1: those without one) are dealt out.
struct MessageLanes {
  int to_host = 0;
  int path = -1;
  std::vector<Lane> lanes = {};
};

/// Immutable after Make; borrows the model.
class Planner {
 public:
  /// The hosts of the problem are numbers of the model's. An error names what is wrong with the
  /// problem, or why the operator's plan cannot be carried out.
  static Result<Planner> Make(const FabricModel& model, Problem problem, PlannerOptions options);

  const Problem& problem() const { return problem_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }
  const std::vector<NotConsidered>& not_considered() const { return not_considered_; }
  double bound_seconds_per_byte() const { return bound_; }

  PlannedSize PlanFor(uint64_t bytes) const;
  /// What one of its plans is predicted to take for another size.
  Prediction PredictAt(const RankedPlan& plan, uint64_t bytes) const;
  /// What one of its plans would take where the links carry what those of `other` do, a model of
  /// the same fabric, and messages are dealt out by that. An error if the plan cannot be made.
  Result<Prediction> PredictOn(const FabricModel& other, const RankedPlan& plan,
                               uint64_t bytes) const;
  /// The outline of one of its plans.
  OutlineResult OutlineOf(const RankedPlan& plan) const;
  /// The same for whoever has no slices: cut into as many pieces, but no more than `most_pieces`.
  OutlineResult OutlineInPieces(const RankedPlan& plan, int most_pieces = 256) const;
  /// The lanes of all messages that a candidate's programs may send from a host, for whoever
  /// carries them out. To all other hosts of the problem.
  std::vector<MessageLanes> LanesFrom(size_t candidate, int host) const;
  /// The same where the links carry what those of `other` do.
  std::vector<MessageLanes> LanesFrom(size_t candidate, int host, const FabricModel& other) const;

 private:
  friend class CandidateMaker;
  Planner(const FabricModel& model, Problem problem, PlannerOptions options);
  RankedPlan BestCut(size_t candidate, uint64_t bytes) const;
  /// A candidate's outline as its footprint is made from.
  OutlineResult OutlineOfCandidate(size_t candidate) const;
  std::vector<MessageLanes> LanesFrom(const FabricModel& model, PathUse use,
                                      const LaneTable& chosen, int host) const;

  const FabricModel& model_;
  Problem problem_;
  PlannerOptions options_;
  CapacityGraph graph_;
  double bound_ = 0;
  std::vector<Candidate> candidates_;
  std::vector<NotConsidered> not_considered_;
};

/// Powers of four from 256 B to 1 GiB.
std::vector<uint64_t> SizeClasses();

}  // namespace harmonaize
