#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/planner/planner.h"

namespace harmonaize {

/// Returns the lanes that an outline's routes take, by pair of hosts and path; the routes are edges
/// of `graph`. A route that no lane can be told to follow gets all lanes of its two hosts.
LaneTable LanesOfRoutes(const FabricModel& model, const CapacityGraph& graph,
                        const Outline& outline);

/// Fills a Planner with candidates; a part of Planner::Make.
class CandidateMaker {
 public:
  CandidateMaker(const FabricModel& model, const PlannerOptions& options, Planner* planner);
  /// Fills the planner. Errors: the operator's plan cannot be carried out, or no candidate can.
  Status Make();

 private:
  Status MakeFixed();
  Status MakeStaticRing();
  Status MakeAdaptive();
  void Consider(const Algorithm& algorithm);
  /// Adds a candidate with its footprint for each of `uses`. Errors: why the outline cannot be
  /// made.
  Status Add(PlanSpec spec, const std::vector<PathUse>& uses);
  /// Returns Candidate::roundings of an outline.
  int RoundingsOf(const Outline& outline, const Summary& summary) const;
  LoadSpread& SpreadFor(PathUse use);
  std::string WhyNot(const Algorithm& algorithm) const;
  void Skip(std::string what, std::string why);

  const FabricModel& model_;
  const PlannerOptions& options_;
  Planner& planner_;
  int hosts_;
  std::vector<HostOrder> orders_;
  std::vector<std::vector<int>> groups_;
  std::map<PathUse, LoadSpread> spreads_;
};

}  // namespace harmonaize
