#include "src/planner/candidate_maker.h"

#include <algorithm>
#include <utility>

#include "src/schedule/ir/roundings.h"

namespace harmonaize {
namespace {

// Most messages of a schedule that is written out only to count roundings. A ring of 180 hosts has
// as many, and takes 60 ms and some 30 MB.
constexpr uint64_t kMostMessagesWritten = 65536;

}  // namespace

CandidateMaker::CandidateMaker(const FabricModel& model, const PlannerOptions& options,
                               Planner* planner)
    : model_(model),
      options_(options),
      planner_(*planner),
      hosts_(HostPlacement(planner->problem_.host_of_rank).hosts()) {}

Status CandidateMaker::Make() {
  switch (options_.policy) {
    case PlanPolicy::kFixed: return MakeFixed();
    case PlanPolicy::kStaticRing: return MakeStaticRing();
    case PlanPolicy::kAdaptive: return MakeAdaptive();
  }
  return InternalError("a planner's policy is {}", static_cast<int>(options_.policy));
}

Status CandidateMaker::MakeFixed() {
  const PlanSpec& fixed = options_.fixed;
  const Algorithm* algorithm = fixed.algorithm;
  const Collective collective = planner_.problem_.collective;
  if (algorithm == nullptr) return InvalidArgument("the policy 'fixed' needs a plan");
  if (!algorithm->CarriesOut(collective)) {
    return InvalidArgument("the algorithm '{}' does not carry out {}", algorithm->name,
                           CollectiveName(collective));
  }
  if (options_.terms.reproducible && Reduces(collective) && !algorithm->in_rank_order) {
    return InvalidArgument("the algorithm '{}' does not reduce in the order of the ranks",
                           algorithm->name);
  }
  return Add(fixed, {fixed.paths});
}

Status CandidateMaker::MakeStaticRing() {
  const Collective collective = planner_.problem_.collective;
  const char* name = "ring";
  if (collective == Collective::kBroadcast || collective == Collective::kReduce) name = "chain";
  if (collective == Collective::kAllToAll) name = "direct-all-to-all";
  if (collective == Collective::kGather || collective == Collective::kScatter) {
    name = "direct-gather";
  }
  if (hosts_ == 1) name = "one-host";
  const Algorithm* algorithm = FindAlgorithm(name);
  if (options_.terms.reproducible && Reduces(collective) && !algorithm->in_rank_order) {
    return InvalidArgument(
        "a ring does not reduce in the order of the ranks; the policy 'adaptive' can");
  }
  PlanSpec spec{.algorithm = algorithm};
  if (algorithm->takes_order) spec.order = GivenOrder(planner_.problem_);
  return Add(std::move(spec), {PathUse::kEcmp});
}

Status CandidateMaker::MakeAdaptive() {
  const Problem& problem = planner_.problem_;
  orders_.push_back(GivenOrder(problem));
  std::vector<HostOrder> others;
  others.push_back(OrderByRack(model_, problem));
  if (hosts_ <= options_.most_searched_hosts) others.push_back(SearchedOrder(model_, problem));
  for (HostOrder& order : others) {
    const bool known = std::any_of(orders_.begin(), orders_.end(),
                                   [&](const HostOrder& one) { return one.hosts == order.hosts; });
    if (!known) orders_.push_back(std::move(order));
  }
  groups_ = GroupsByRack(model_, problem);
  for (const Algorithm& algorithm : Algorithms()) {
    if (algorithm.CarriesOut(problem.collective)) Consider(algorithm);
  }
  if (!planner_.candidates_.empty()) return Status::Ok();
  std::string reasons;
  for (const NotConsidered& one : planner_.not_considered_) {
    reasons += fmt::format("; {}: {}", one.what, one.why);
  }
  return InvalidArgument("no algorithm can carry this out{}", reasons);
}

std::string CandidateMaker::WhyNot(const Algorithm& algorithm) const {
  const Problem& problem = planner_.problem_;
  const bool one_host = algorithm.name == "one-host";
  if (one_host != (hosts_ == 1)) return one_host ? "several hosts" : "one host";
  if (options_.terms.reproducible && Reduces(problem.collective) && !algorithm.in_rank_order) {
    return "does not reduce in the order of the ranks";
  }
  if (!options_.terms.Allow(algorithm.name)) return "the job does not want it";
  if (problem.in_place && !algorithm.in_place) return "not in place";
  if (algorithm.needs_groups && groups_.empty()) return "the hosts make no groups by rack";
  if (hosts_ > algorithm.worth_hosts)
    return fmt::format("more than {} hosts", algorithm.worth_hosts);
  if (algorithm.needs_fabric && hosts_ > options_.most_packed_hosts) {
    return fmt::format("more than {} hosts", options_.most_packed_hosts);
  }
  if (algorithm.in_rank_order && !one_host && !options_.terms.reproducible &&
      hosts_ > options_.most_rank_order_hosts) {
    return fmt::format("more than {} hosts", options_.most_rank_order_hosts);
  }
  return "";
}

void CandidateMaker::Skip(std::string what, std::string why) {
  planner_.not_considered_.push_back({std::move(what), std::move(why)});
}

void CandidateMaker::Consider(const Algorithm& algorithm) {
  const std::string name(algorithm.name);
  if (std::string why = WhyNot(algorithm); !why.empty()) return Skip(name, std::move(why));
  const std::vector<PathUse> uses = {PathUse::kWeighted};
  PlanSpec spec{.algorithm = &algorithm};
  if (algorithm.needs_groups) {
    spec.groups_name = "by rack";
    spec.groups = groups_;
  }
  for (const HostOrder& order : orders_) {
    if (algorithm.takes_order) spec.order = order;
    std::vector<PathUse> these = uses;
    // The plan of a job that was left to itself (a ring as given, by ECMP) is always shown too.
    const bool plain = algorithm.name == "ring" && order.name == "given";
    if (plain) these.push_back(PathUse::kEcmp);
    if (Status status = Add(spec, these); !status.ok()) Skip(name, status.message());
    if (!algorithm.takes_order) break;
  }
}

// Exact where the schedule is short enough to be written out. Elsewhere each message in a row may
// round once, and so may the first host.
int CandidateMaker::RoundingsOf(const Outline& outline, const Summary& summary) const {
  const bool rounds = options_.terms.wire.AllowsAny() && options_.policy == PlanPolicy::kAdaptive &&
                      !options_.terms.reproducible && hosts_ > 1 &&
                      Reduces(outline.problem().collective);
  if (!rounds) return 0;
  uint64_t messages = 0;
  for (const Load& load : summary.loads) messages += load.blocks;
  const int at_most = summary.dependent_messages + 1;
  if (messages > kMostMessagesWritten) return at_most;
  const Result<int> counted = MostRoundings(outline.Write());
  return counted.ok() ? *counted : at_most;
}

LoadSpread& CandidateMaker::SpreadFor(PathUse use) {
  return spreads_.try_emplace(use, model_, use).first->second;
}

LaneTable LanesOfRoutes(const FabricModel& model, const CapacityGraph& graph,
                        const Outline& outline) {
  LaneTable table;
  for (const auto& [ends, routes] : outline.routes()) {
    for (const Route& route : routes) {
      std::vector<int> nodes;
      for (const int edge : route) {
        const CapacityGraph::Edge& ends_of = graph.edges[static_cast<size_t>(edge)];
        if (nodes.empty()) nodes.push_back(ends_of.from);
        nodes.push_back(ends_of.to);
      }
      std::vector<Lane> lanes = model.LanesThrough(ends.first, ends.second, nodes);
      if (lanes.empty()) lanes = model.Lanes(ends.first, ends.second, PathUse::kWeighted);
      table[ends].push_back(std::move(lanes));
    }
  }
  return table;
}

Status CandidateMaker::Add(PlanSpec spec, const std::vector<PathUse>& uses) {
  AlgorithmOptions options{.pieces = 1, .order = spec.order.hosts, .groups = spec.groups};
  options.fabric = &planner_.graph_;
  HZ_ASSIGN_OR_RETURN(const auto outline, spec.algorithm->make(planner_.problem_, options));
  const LaneTable lanes = LanesOfRoutes(model_, planner_.graph_, *outline);
  const Summary summary = outline->Summarize();
  const int roundings = RoundingsOf(*outline, summary);
  std::vector<PathUse> left = uses;
  for (size_t i = 0; i < left.size(); ++i) {
    Candidate candidate{.spec = spec, .lanes = lanes};
    candidate.spec.paths = left[i];
    candidate.roundings = roundings;
    if (!lanes.empty()) {
      LoadSpread chosen(model_, left[i], &lanes);
      candidate.footprint = MakeFootprint(model_, summary, &chosen, options_.costs);
    } else {
      LoadSpread& spread = SpreadFor(left[i]);
      candidate.footprint = MakeFootprint(model_, summary, &spread, options_.costs);
      const bool adaptive = options_.policy == PlanPolicy::kAdaptive;
      if (adaptive && left[i] == PathUse::kWeighted && spread.Weighs()) {
        left.push_back(PathUse::kEven);
      }
    }
    candidate.footprint.ranks = static_cast<int>(planner_.problem().host_of_rank.size());
    planner_.candidates_.push_back(std::move(candidate));
  }
  return Status::Ok();
}

}  // namespace harmonaize
