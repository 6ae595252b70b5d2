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
#include "src/planner/plan_terms.h"
#include "src/planner/wire_terms.h"
#include "src/schedule/algorithms/algorithms.h"
#include "src/schedule/ir/outline.h"

namespace harmonaize {

// The planner chooses how a collective is carried out on a fabric. Of all algorithms, host orders,
// groups, cuts into pieces and uses of paths, it takes those with the least predicted time.
// docs/planning.md tells how.
//
// Every daemon plans for itself, and all must come to the same plan. So a planner's answer depends
// on its arguments alone, not on the machine, the time or the order of anything unordered.

enum class PlanPolicy {
  kAdaptive = 0,  ///< Chooses the plan with the least predicted time.
  /// Imitates NCCL: a ring in the order of the ranks, decided once, on the ways that ECMP chooses.
  /// Where there is no ring: the chain in that order, or each block straight to its host.
  kStaticRing,
  kFixed,  ///< Uses the operator's plan (plan_file.h).
};
inline constexpr int kPlanPolicyCount = 3;
/// Returns "adaptive", "static-ring" or "fixed".
std::string_view PlanPolicyName(PlanPolicy policy);
/// Returns the policy of this name, if there is one.
std::optional<PlanPolicy> FindPlanPolicy(std::string_view name);

/// Determines which schedule is run, and on which ways.
struct PlanSpec {
  const Algorithm* algorithm = nullptr;
  HostOrder order = {};  ///< No hosts where the algorithm takes no order.
  std::string groups_name = {};
  std::vector<std::vector<int>> groups = {};
  int pieces = 1;  ///< AlgorithmOptions::pieces.
  PathUse paths = PathUse::kWeighted;
};

struct PlannerOptions {
  PlanPolicy policy = PlanPolicy::kAdaptive;
  PlanSpec fixed = {};  ///< For PlanPolicy::kFixed.
  NetworkCosts costs = {};
  /// What the job says. PlanTerms::reproducible has only algorithms considered that reduce in rank
  /// order. PlanTerms::wire is for adaptive plans that are not reproducible: the others leave sums
  /// as they are. All but `reproducible` is for adaptive plans alone.
  PlanTerms terms = {};
  /// Trees are packed for at most this many hosts: the time grows with a high power of them.
  int most_packed_hosts = 24;
  /// Host orders are searched for at most this many hosts: the time grows with their fourth power.
  int most_searched_hosts = 12;
  /// Algorithms in rank order, where a host exchanges with all others, are considered for at most
  /// this many hosts.
  int most_rank_order_hosts = 128;
};

/// One schedule, on one use of paths, that the planner chooses from.
struct Candidate {
  PlanSpec spec;  ///< With pieces left to PlannedSize, unless the operator states them.
  Footprint footprint = {};
  LaneTable lanes = {};  ///< Lanes of the messages that name a path.
  /// Most roundings of a contribution on its way, where messages have a narrower format; 0 where
  /// they cannot have one.
  int roundings = 0;
};

/// An alternative that was not considered, and the reason, in words for people.
struct NotConsidered {
  std::string what;
  std::string why;
};

struct RankedPlan {
  size_t candidate = 0;
  int pieces = 1;  ///< Pieces of the schedule.
  SliceCut slice;  ///< How the executor is to cut the blocks: bytes of data, not of messages.
  WireFormat wire = WireFormat::kSame;  ///< Format of sums on the wire.
  int slices = 1;                       ///< Slices of each block.
  Prediction prediction;
};

/// The plans for one size class.
struct PlannedSize {
  uint64_t bytes = 0;        ///< Bytes of one unit: `count` times the type's size.
  double bound_seconds = 0;  ///< BoundSecondsPerByte * bytes.
  /// The plans, least time first, except that of alike ones the one with the least work may lead,
  /// and that PlanTerms::objective, or its deadline, puts another one first.
  /// Each candidate is there once, with the cut into slices that suits it best, in the format that
  /// was chosen for all, unless its error would be too large. The first is the choice. Candidates
  /// come in a fixed order, and of equals the first wins.
  std::vector<RankedPlan> plans = {};
};

/// Lanes over which messages to one host by a Step::path (-1: without one) are dealt.
struct MessageLanes {
  int to_host = 0;
  int path = -1;
  std::vector<Lane> lanes = {};
};

/// Immutable after Make; borrows the model.
class Planner {
 public:
  /// Requires: the hosts of the problem are numbers of the model's. Errors: the problem is invalid,
  /// or the operator's plan cannot be carried out.
  static Result<Planner> Make(const FabricModel& model, Problem problem, PlannerOptions options);

  const Problem& problem() const { return problem_; }
  const std::vector<Candidate>& candidates() const { return candidates_; }
  const std::vector<NotConsidered>& not_considered() const { return not_considered_; }
  double bound_seconds_per_byte() const { return bound_; }

  PlannedSize PlanFor(uint64_t bytes) const;
  /// Returns the predicted time of one of its plans for another size.
  Prediction PredictAt(const RankedPlan& plan, uint64_t bytes) const;
  /// Returns the predicted time of one of its plans on `other`, a model of the same fabric with
  /// other rates, with messages dealt out by these rates. Errors: the plan cannot be made.
  Result<Prediction> PredictOn(const FabricModel& other, const RankedPlan& plan,
                               uint64_t bytes) const;
  /// Returns the outline of one of its plans.
  OutlineResult OutlineOf(const RankedPlan& plan) const;
  /// Returns the outline for users that have no slices: cut into as many pieces instead, but no
  /// more than `most_pieces`.
  OutlineResult OutlineInPieces(const RankedPlan& plan, int most_pieces = 256) const;
  /// Returns the lanes of all messages that a candidate's programs may send from a host, to all
  /// other hosts of the problem. Executors set up connections by them.
  std::vector<MessageLanes> LanesFrom(size_t candidate, int host) const;
  /// Returns the lanes for `other`, a model of the same fabric with other rates.
  std::vector<MessageLanes> LanesFrom(size_t candidate, int host, const FabricModel& other) const;

 private:
  friend class CandidateMaker;
  Planner(const FabricModel& model, Problem problem, PlannerOptions options);
  /// Returns all candidates for a size, best first, in a format where its error allows it.
  std::vector<RankedPlan> RankedBy(uint64_t bytes, WireFormat wire, double error_bound) const;
  void PutPreferredFirst(std::vector<RankedPlan>* plans) const;
  RankedPlan BestCut(size_t candidate, uint64_t bytes, WireFormat wire) const;
  Prediction PredictBy(const Footprint& footprint, const RankedPlan& plan, uint64_t bytes) const;
  /// Returns the outline that a candidate's footprint is made from.
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
