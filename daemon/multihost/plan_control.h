#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/plans/congestion.h"
#include "daemon/plans/home_planner.h"
#include "daemon/plans/plan_review.h"
#include "src/planner/collective_plan.h"

namespace harmonaize::daemon {

class PlanSwitching;
struct PlanRecord;

/// At the home of a communicator: decides when its plans change, and to which plans. Thread:
/// engine.
class PlanControl {
 public:
  /// `records` returns the plans in use; `tell_rates` tells all hosts what links carry;
  /// `on_congestion` is called with another level, and with how many times as long operations take;
  /// `on_links` when links that are cut begin to slow operations down, and when none is cut any
  /// more.
  PlanControl(const PlansConfig& config, HomePlanner* home_planner, PlanSwitching* switching,
              std::function<std::vector<PlanRecord>()> records,
              std::function<void(const EdgeRates&)> tell_rates,
              std::function<void(CongestionLevel, double)> on_congestion,
              std::function<void(bool degraded, double times)> on_links);

  /// Takes in what links have for this communicator, where that is not what the fabric states.
  void OnRates(const EdgeRates& rates, const FabricModel& fabric, uint64_t now_ns);
  /// Has plans in use give way to those that are chosen by the job's terms of now, whatever time
  /// they are predicted to take: at once, or when the change is over that is under way.
  void OnTermsChanged();
  /// Notes that a plan has been made, which may have been chosen before the terms changed.
  void NotePlan();
  /// Returns whether FollowTerms is to be called now and then, while operations are carried out.
  bool follows_terms() const { return unsettled_; }
  /// Goes on with OnTermsChanged.
  void FollowTerms();
  /// Changes plans as often as the configuration asks for
  /// (PlansConfig::switch_every_ms).
  void Tick(uint64_t now_ns);
  /// How much of its speed the communicator loses now.
  const Congestion& congestion() const { return congestion_; }

 private:
  void Review(const EdgeRates& rates, const FabricModel& fabric);
  void OnReviewed(const std::vector<HomePlanner::Reviewed>& reviewed, const std::string& links);
  double WeightOf(const PlanRecord& record);
  void NoteCongestion(const std::vector<HomePlanner::Reviewed>& reviewed,
                      std::map<PlanKey, double>& weights);
  void ProposeOthers();
  void ProposeByTerms();
  void ProposeThoseThatDiffer(const std::vector<CollectivePlan>& plans);

  const PlansConfig config_;
  HomePlanner* const home_planner_;
  PlanSwitching* const switching_;
  const std::function<std::vector<PlanRecord>()> records_;
  const std::function<void(const EdgeRates&)> tell_rates_;
  const std::function<void(CongestionLevel, double)> on_congestion_;
  const std::function<void(bool, double)> on_links_;

  PlanReview review_;
  Congestion congestion_;
  CutSlowdown cut_slowdown_;
  bool any_is_cut_ = false;  ///< By reviewed_rates_.
  EdgeRates told_rates_;
  EdgeRates reviewed_rates_;
  uint64_t next_review_ns_ = 0;
  bool reviewing_ = false;
  struct Use {
    double seconds = 0;  // PlanRecord::seconds when it was last looked at
    double weight = 0;   // seconds of operations, of which older ones count less
    uint64_t at_ns = 0;
  };
  std::map<PlanKey, Use> uses_;

  bool follows_terms_ = false;  ///< The job's terms have changed since the communicator formed.
  bool unsettled_ = false;      ///< Some plan may not be the one for the terms of now.
  uint64_t next_try_ns_ = 0;
  std::set<PlanKey> settled_;  ///< Keys whose plan is the one for the terms of now.
  uint64_t next_switch_ns_ = 0;
  size_t turn_ = 0;
  bool asking_ = false;
};

}  // namespace harmonaize::daemon
