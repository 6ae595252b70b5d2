#include "src/planner/planner.h"

#include <algorithm>
#include <utility>

#include "src/planner/candidate_maker.h"
#include "src/planner/fabric_bound.h"

namespace harmonaize {
namespace {

// Bounds of a slice, in bytes: a shorter one is all overhead, a longer one gains nothing more.
constexpr uint64_t kLeastSlice = 8192;
constexpr uint64_t kMostSlice = uint64_t{1} << 20;
// Larger slices may take this factor of the least predicted time, because they cost hosts less
// work.
constexpr double kWorthIt = 1.01;
// Predictions within this factor do not tell which plan is faster.
constexpr double kAlike = 1.02;
// A plan may take this factor of the least predicted time for the sake of PlanTerms::objective.
constexpr double kWorthObjective = 1.25;
// A format that loses more is used if it is predicted to be faster by this factor.
constexpr double kWorthRounding = 1.1;

}  // namespace

std::string_view PlanPolicyName(PlanPolicy policy) {
  switch (policy) {
    case PlanPolicy::kAdaptive: return "adaptive";
    case PlanPolicy::kStaticRing: return "static-ring";
    case PlanPolicy::kFixed: return "fixed";
  }
  return "unknown";
}

std::optional<PlanPolicy> FindPlanPolicy(std::string_view name) {
  for (int i = 0; i < kPlanPolicyCount; ++i) {
    const auto policy = static_cast<PlanPolicy>(i);
    if (PlanPolicyName(policy) == name) return policy;
  }
  return std::nullopt;
}

std::vector<uint64_t> SizeClasses() {
  std::vector<uint64_t> sizes;
  for (uint64_t bytes = 256; bytes <= uint64_t{1} << 30; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

Planner::Planner(const FabricModel& model, Problem problem, PlannerOptions options)
    : model_(model),
      problem_(std::move(problem)),
      options_(std::move(options)),
      graph_(model.GraphFor(HostPlacement(problem_.host_of_rank))) {}

Result<Planner> Planner::Make(const FabricModel& model, Problem problem, PlannerOptions options) {
  HZ_RETURN_IF_ERROR(CheckProblem(problem));
  for (const int host : problem.host_of_rank) {
    if (host < model.hosts()) continue;
    return InvalidArgument("a rank is on host {}; the fabric has {} hosts", host, model.hosts());
  }
  Planner planner(model, std::move(problem), std::move(options));
  HZ_ASSIGN_OR_RETURN(planner.bound_, BoundSecondsPerByte(model, planner.problem_));
  HZ_RETURN_IF_ERROR(CandidateMaker(model, planner.options_, &planner).Make());
  return planner;
}

namespace {

// Fraction of the predicted credit that choices count on: links that were busy, or shared with
// others, make up for less.
constexpr double kTrustInCredit = 0.9;

/// The time by which plans are compared; less is better.
double Preference(const Prediction& prediction) {
  return prediction.seconds + (1 - kTrustInCredit) * prediction.credit;
}

/// Returns the time of the busiest host's processors and memory.
double WorkOf(const RankedPlan& plan) {
  return plan.prediction.handling + plan.prediction.memory;
}

/// Where processors are the bottleneck, puts a plan with the least work first. It is one of the
/// plans whose time is alike to the best; of those with alike work the simplest leads, because
/// candidates come in that order.
void PutLeastWorkFirst(std::vector<RankedPlan>* plans) {
  if (plans->empty()) return;
  const Prediction& best = plans->front().prediction;
  if (best.handling <= best.network) return;
  const double most_seconds = kAlike * Preference(best);
  const auto end = std::find_if(plans->begin(), plans->end(), [&](const RankedPlan& plan) {
    return Preference(plan.prediction) > most_seconds;
  });
  double least_work = WorkOf(plans->front());
  std::for_each(plans->begin(), end,
                [&](const RankedPlan& plan) { least_work = std::min(least_work, WorkOf(plan)); });
  auto first = end;
  for (auto plan = plans->begin(); plan != end; ++plan) {
    if (WorkOf(*plan) > kAlike * least_work) continue;
    if (first == end || plan->candidate < first->candidate) first = plan;
  }
  std::rotate(plans->begin(), first, first + 1);
}

/// Returns how much a plan has of what an objective wants little of.
double CostOf(PlanObjective objective, const Candidate& candidate, const RankedPlan& plan) {
  switch (objective) {
    case PlanObjective::kFewestMessages: return candidate.footprint.dependent_messages;
    case PlanObjective::kLeastTraffic: return plan.prediction.network;
    case PlanObjective::kLeastWork: return WorkOf(plan);
    case PlanObjective::kFastest: break;
  }
  return 0;
}

/// Puts the plan first that has the least `cost` of those that are predicted to take
/// `most_seconds` at most. The first is among them. Of plans with alike cost the fastest leads.
template <typename Cost>
void PutFirst(double most_seconds, std::vector<RankedPlan>* plans, Cost cost) {
  auto first = plans->begin();
  for (auto plan = plans->begin(); plan != plans->end(); ++plan) {
    if (plan->prediction.seconds > most_seconds) continue;
    if (kAlike * cost(*plan) < cost(*first)) first = plan;
  }
  std::rotate(plans->begin(), first, first + 1);
}

/// Returns the bytes of a block if a schedule of one piece is cut into `pieces`.
uint64_t BlockBytes(const Footprint& footprint, int pieces, uint64_t bytes) {
  const uint64_t blocks = static_cast<uint64_t>(footprint.pieces) * static_cast<uint64_t>(pieces);
  return std::max<uint64_t>(bytes / blocks, 1);
}

/// Returns the bytes of data that messages of so many bytes carry, in whole groups of float32.
uint64_t DataOf(uint64_t message_bytes, WireFormat wire) {
  if (wire == WireFormat::kSame) return message_bytes;
  const uint64_t group = WireBytes(wire, DataType::kFloat32, kWireGroupElements);
  return std::max<uint64_t>(message_bytes / group, 1) *
         WireBytes(WireFormat::kSame, DataType::kFloat32, kWireGroupElements);
}

int Slices(uint64_t block, uint64_t slice) {
  return static_cast<int>((block + slice - 1) / slice);
}

}  // namespace

RankedPlan Planner::BestCut(size_t candidate, uint64_t bytes, WireFormat wire) const {
  const Footprint& footprint = candidates_[candidate].footprint;
  // The footprint was made with one piece, so `pieces` still divides its blocks.
  const int pieces = options_.policy == PlanPolicy::kFixed ? options_.fixed.pieces : 1;
  const uint64_t block = BlockBytes(footprint, pieces, bytes);
  const double share = WireShareOf(wire);
  std::vector<RankedPlan> cuts;
  double least = 0;
  for (uint64_t message = kMostSlice; message >= kLeastSlice; message /= 2) {
    const uint64_t slice = DataOf(message, wire);
    if (DataOf(message / 2, wire) >= block && message > kLeastSlice) continue;  // as the next
    const int slices = Slices(block, slice);
    const int parts = pieces * slices;
    const Prediction prediction = Predict(footprint, bytes, parts, options_.costs, share);
    // A slice consists of parts of all the schedule's pieces.
    const int at_once = PartsAtOnce(footprint, bytes, parts, options_.costs, share) / pieces;
    cuts.push_back({candidate, pieces, {slice, std::max(at_once, 2)}, wire, slices, prediction});
    const double seconds = prediction.without_credit();
    least = cuts.size() == 1 ? seconds : std::min(least, seconds);
  }
  // Cuts come largest first. A smaller one may cost less work where larger messages are offered
  // first.
  const RankedPlan* best = nullptr;
  for (const RankedPlan& cut : cuts) {
    if (cut.prediction.without_credit() > least * kWorthIt) continue;
    if (best == nullptr || WorkOf(*best) > kAlike * WorkOf(cut)) best = &cut;
  }
  return *best;
}

std::vector<RankedPlan> Planner::RankedBy(uint64_t bytes, WireFormat wire,
                                          double error_bound) const {
  const auto ranks = static_cast<int>(problem_.host_of_rank.size());
  std::vector<RankedPlan> plans;
  for (size_t candidate = 0; candidate < candidates_.size(); ++candidate) {
    const int roundings = candidates_[candidate].roundings;
    const bool rounds = roundings > 0 && WireErrorBound(wire, roundings, ranks) <= error_bound;
    plans.push_back(BestCut(candidate, bytes, rounds ? wire : WireFormat::kSame));
  }
  std::stable_sort(plans.begin(), plans.end(), [](const RankedPlan& a, const RankedPlan& b) {
    return Preference(a.prediction) < Preference(b.prediction);
  });
  PutLeastWorkFirst(&plans);
  return plans;
}

PlannedSize Planner::PlanFor(uint64_t bytes) const {
  const WireTerms& wire = options_.terms.wire;
  const double deadline_seconds = options_.terms.deadline_seconds;
  PlannedSize size{
      .bytes = bytes, .bound_seconds = bound_ * static_cast<double>(bytes), .plans = {}};
  size.plans = RankedBy(bytes, WireFormat::kSame, wire.error_bound);
  const auto in_time = [&](const std::vector<RankedPlan>& plans) {
    return deadline_seconds > 0 && plans[0].prediction.seconds <= deadline_seconds;
  };
  for (const WireFormat format : {WireFormat::kBf16, WireFormat::kFp8}) {
    if (!wire.Allows(format) || in_time(size.plans)) continue;
    std::vector<RankedPlan> plans = RankedBy(bytes, format, wire.error_bound);
    const bool faster =
        Preference(size.plans[0].prediction) > kWorthRounding * Preference(plans[0].prediction);
    if (faster || in_time(plans)) size.plans = std::move(plans);
  }
  PutPreferredFirst(&size.plans);
  return size;
}

// A deadline goes before the objective, and leaves no room for it where no plan meets it.
void Planner::PutPreferredFirst(std::vector<RankedPlan>* plans) const {
  const PlanTerms& terms = options_.terms;
  if (plans->empty() || options_.policy != PlanPolicy::kAdaptive) return;
  const double fastest = plans->front().prediction.seconds;
  PlanObjective objective = terms.objective;
  double most_seconds = kWorthObjective * fastest;
  if (terms.deadline_seconds > 0) {
    if (fastest > terms.deadline_seconds) return;
    objective = PlanObjective::kLeastTraffic;
    most_seconds = terms.deadline_seconds;
  }
  if (objective == PlanObjective::kFastest) return;
  PutFirst(most_seconds, plans, [&](const RankedPlan& plan) {
    return CostOf(objective, candidates_[plan.candidate], plan);
  });
}

Prediction Planner::PredictBy(const Footprint& footprint, const RankedPlan& plan,
                              uint64_t bytes) const {
  const int slices = Slices(BlockBytes(footprint, plan.pieces, bytes), plan.slice.bytes);
  return Predict(footprint, bytes, plan.pieces * slices, options_.costs, WireShareOf(plan.wire));
}

Prediction Planner::PredictAt(const RankedPlan& plan, uint64_t bytes) const {
  return PredictBy(candidates_[plan.candidate].footprint, plan, bytes);
}

OutlineResult Planner::OutlineOfCandidate(size_t candidate) const {
  RankedPlan plan;
  plan.candidate = candidate;
  return OutlineOf(plan);
}

Result<Prediction> Planner::PredictOn(const FabricModel& other, const RankedPlan& plan,
                                      uint64_t bytes) const {
  HZ_ASSIGN_OR_RETURN(const auto outline, OutlineOfCandidate(plan.candidate));
  const LaneTable chosen = LanesOfRoutes(other, graph_, *outline);
  const Candidate& candidate = candidates_[plan.candidate];
  LoadSpread spread(other, candidate.spec.paths, chosen.empty() ? nullptr : &chosen);
  Footprint footprint = MakeFootprint(other, outline->Summarize(), &spread, options_.costs);
  footprint.ranks = candidate.footprint.ranks;
  return PredictBy(footprint, plan, bytes);
}

OutlineResult Planner::OutlineOf(const RankedPlan& plan) const {
  const PlanSpec& spec = candidates_[plan.candidate].spec;
  AlgorithmOptions options{.pieces = plan.pieces, .order = spec.order.hosts, .groups = spec.groups};
  options.fabric = &graph_;
  return spec.algorithm->make(problem_, options);
}

OutlineResult Planner::OutlineInPieces(const RankedPlan& plan, int most_pieces) const {
  RankedPlan whole = plan;
  whole.pieces = std::min(plan.pieces * plan.slices, std::max(most_pieces, plan.pieces));
  return OutlineOf(whole);
}

std::vector<MessageLanes> Planner::LanesFrom(size_t candidate, int host) const {
  const Candidate& plan = candidates_[candidate];
  return LanesFrom(model_, plan.spec.paths, plan.lanes, host);
}

std::vector<MessageLanes> Planner::LanesFrom(size_t candidate, int host,
                                             const FabricModel& other) const {
  if (&other == &model_) return LanesFrom(candidate, host);  // no outline is to be made again
  const Candidate& plan = candidates_[candidate];
  LaneTable chosen;
  if (!plan.lanes.empty()) {
    const OutlineResult outline = OutlineOfCandidate(candidate);
    if (outline.ok()) chosen = LanesOfRoutes(other, graph_, **outline);
  }
  return LanesFrom(other, plan.spec.paths, chosen, host);
}

std::vector<MessageLanes> Planner::LanesFrom(const FabricModel& model, PathUse use,
                                             const LaneTable& chosen, int host) const {
  std::vector<MessageLanes> all;
  const HostPlacement placement(problem_.host_of_rank);
  for (int position = 0; position < placement.hosts(); ++position) {
    const int to = placement.HostAt(position);
    if (to == host) continue;
    all.push_back({to, -1, model.Lanes(host, to, use)});
    const auto named = chosen.find({host, to});
    if (named == chosen.end()) continue;
    for (size_t path = 0; path < named->second.size(); ++path) {
      all.push_back({to, static_cast<int>(path), named->second[path]});
    }
  }
  return all;
}

}  // namespace harmonaize
