#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/planner/planner.h"

namespace harmonaize {

/// The lanes of an outline's routes, which are edges of `graph`; where no path can be told to take
/// one, all of the two hosts.
LaneTable LanesOfRoutes(const FabricModel& model, const CapacityGraph& graph,
                        const Outline& outline);

/// Fills a Planner with candidates; a part of Planner::Make.
class CandidateMaker {
 public:
  CandidateMaker(const FabricModel& model, const PlannerOptions& options, Planner* planner);
  /// An error where the operator's plan cannot be carried out, or nothing can.
  Status Make();

 private:
  Status MakeFixed();
  Status MakeStaticRing();
  Status MakeAdaptive();
  void Consider(const Algorithm& algorithm);
  /// Adds candidates with one footprint each; kept with why, if it cannot be.
  Status Add(PlanSpec spec, const std::vector<PathUse>& uses);
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
