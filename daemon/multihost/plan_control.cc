#include "daemon/multihost/plan_control.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "daemon/links/link_state.h"
#include "daemon/multihost/plan_table.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

/// Age, in seconds, at which the use of a plan counts a third of what use counts now.
constexpr double kUseSeconds = 5;
/// Shortest time between two tries to bring plans in line with the job's terms, in nanoseconds: a
/// change may be called off because a host is not ready for it.
constexpr uint64_t kTryTermsEveryNs = 50'000'000;

}  // namespace

PlanControl::PlanControl(const PlansConfig& config, HomePlanner* home_planner,
                         PlanSwitching* switching, std::function<std::vector<PlanRecord>()> records,
                         std::function<void(const EdgeRates&)> tell_rates,
                         std::function<void(CongestionLevel, double)> on_congestion,
                         std::function<void(bool, double)> on_links)
    : config_(config),
      home_planner_(home_planner),
      switching_(switching),
      records_(std::move(records)),
      tell_rates_(std::move(tell_rates)),
      on_congestion_(std::move(on_congestion)),
      on_links_(std::move(on_links)),
      review_(config.least_gain) {}

void PlanControl::OnRates(const EdgeRates& rates, const FabricModel& fabric, uint64_t now_ns) {
  const bool adaptive = FindPlanPolicy(config_.policy) == PlanPolicy::kAdaptive;
  if (!adaptive) return;
  // Messages are dealt out anew at once, which costs nothing and needs no consent of other hosts.
  if (rates != told_rates_) {
    told_rates_ = rates;
    tell_rates_(told_rates_);
  }
  if (reviewing_ || switching_->under_way() || now_ns < next_review_ns_) return;
  if (rates == reviewed_rates_ && !review_.pending()) return;
  next_review_ns_ = now_ns + PlanReview::kEveryNs;
  Review(rates, fabric);
}

// Returns the seconds that a plan's operations took of late. A plan of which no operation has ended
// counts its predicted time at least, since one may be just about to end.
double PlanControl::WeightOf(const PlanRecord& record) {
  const uint64_t now_ns = MonotonicNanoseconds();
  Use& use = uses_[record.plan.key];
  const double newly = record.seconds >= use.seconds ? record.seconds - use.seconds
                                                     : record.seconds;  // another plan
  const double passed = static_cast<double>(now_ns - use.at_ns) * 1e-9;
  use.weight = use.weight * std::exp(-passed / kUseSeconds) + newly;
  use.seconds = record.seconds;
  use.at_ns = now_ns;
  return record.operations == 0 ? std::max(use.weight, record.plan.predicted_seconds) : use.weight;
}

void PlanControl::Review(const EdgeRates& rates, const FabricModel& fabric) {
  std::vector<CollectivePlan> current;
  for (const PlanRecord& record : records_()) current.push_back(record.plan);
  if (current.empty()) return;
  reviewing_ = true;
  reviewed_rates_ = rates;
  any_is_cut_ = AnyIsCut(fabric, rates);
  const auto done = [this, links = DescribeRates(fabric, rates)](
                        const std::vector<HomePlanner::Reviewed>& reviewed) {
    reviewing_ = false;
    OnReviewed(reviewed, links);
  };
  home_planner_->Review(current, rates, done);
}

void PlanControl::OnReviewed(const std::vector<HomePlanner::Reviewed>& reviewed,
                             const std::string& links) {
  std::map<PlanKey, double> weights;
  for (const PlanRecord& record : records_()) weights[record.plan.key] = WeightOf(record);
  NoteCongestion(reviewed, weights);
  std::vector<PlanReview::Candidate> candidates;
  for (const HomePlanner::Reviewed& one : reviewed) {
    const PlanKey key = one.best.key;
    candidates.push_back({key, one.current_seconds, one.best.predicted_seconds, weights[key]});
  }
  const double now_seconds = static_cast<double>(MonotonicNanoseconds()) * 1e-9;
  const std::vector<PlanKey> keys = review_.Decide(candidates, now_seconds);
  if (keys.empty()) return;
  std::vector<CollectivePlan> next;
  double before = 0;
  double after = 0;
  for (const HomePlanner::Reviewed& one : reviewed) {
    const PlanKey key = one.best.key;
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) continue;
    next.push_back(one.best);
    before += weights[key];
    after += weights[key] * one.best.predicted_seconds / one.current_seconds;
  }
  const std::string reason =
      fmt::format("{}: the new plans are predicted to take {:.0f}% of the time", links,
                  before > 0 ? 100 * after / before : 100);
  if (switching_->Propose(std::move(next), reason)) review_.NoteChange(now_seconds);
}

void PlanControl::NoteCongestion(const std::vector<HomePlanner::Reviewed>& reviewed,
                                 std::map<PlanKey, double>& weights) {
  double now = 0;
  double stated = 0;
  for (const HomePlanner::Reviewed& one : reviewed) {
    // Weighted by the time that operations of this kind take.
    const double weight = weights[one.best.key];
    now += weight;
    stated += weight * one.stated_seconds / one.best.predicted_seconds;
  }
  if (stated <= 0) return;
  if (congestion_.Take(now / stated, UnixSeconds())) {
    on_congestion_(congestion_.level(), now / stated);
  }
  const CutSlowdown::Change change = cut_slowdown_.Take(any_is_cut_, congestion_.level());
  if (change == CutSlowdown::Change::kNone) return;
  on_links_(change == CutSlowdown::Change::kDegraded, now / stated);
}

void PlanControl::OnTermsChanged() {
  follows_terms_ = true;
  settled_.clear();
  unsettled_ = true;
  ProposeByTerms();
}

void PlanControl::NotePlan() {
  unsettled_ = follows_terms_;
}

void PlanControl::FollowTerms() {
  const uint64_t now_ns = MonotonicNanoseconds();
  if (now_ns < next_try_ns_) return;
  next_try_ns_ = now_ns + kTryTermsEveryNs;
  ProposeByTerms();
}

// A plan that was chosen before the change may be in the making now, so plans are looked at until
// each has been found to be the one for the terms of now.
void PlanControl::ProposeByTerms() {
  if (asking_ || switching_->under_way()) return;
  std::vector<PlanKey> keys;
  for (const PlanRecord& record : records_()) {
    if (!settled_.contains(record.plan.key)) keys.push_back(record.plan.key);
  }
  unsettled_ = !keys.empty();
  if (keys.empty()) return;
  asking_ = true;
  home_planner_->AskForOthers(std::move(keys), 0, [this](std::vector<CollectivePlan> plans) {
    asking_ = false;
    ProposeThoseThatDiffer(plans);
  });
}

void PlanControl::ProposeThoseThatDiffer(const std::vector<CollectivePlan>& plans) {
  std::vector<CollectivePlan> others;
  for (const PlanRecord& record : records_()) {
    const auto found =
        std::find_if(plans.begin(), plans.end(),
                     [&record](const CollectivePlan& plan) { return plan.key == record.plan.key; });
    if (found == plans.end()) continue;
    if (!found->status.ok() || CarriesOutAlike(*found, record.plan)) {
      settled_.insert(found->key);
    } else {
      others.push_back(*found);
    }
  }
  if (!others.empty()) {
    switching_->Propose(std::move(others), "the job's requirements have changed");
  }
}

void PlanControl::Tick(uint64_t now_ns) {
  if (config_.switch_every_ms == 0 || now_ns < next_switch_ns_) return;
  next_switch_ns_ = now_ns + static_cast<uint64_t>(config_.switch_every_ms) * 1'000'000;
  if (!asking_ && !switching_->under_way()) ProposeOthers();
}

void PlanControl::ProposeOthers() {
  std::vector<PlanKey> keys;
  for (const PlanRecord& record : records_()) keys.push_back(record.plan.key);
  if (keys.empty()) return;
  asking_ = true;
  home_planner_->AskForOthers(std::move(keys), ++turn_, [this](std::vector<CollectivePlan> plans) {
    asking_ = false;
    switching_->Propose(std::move(plans), "the configuration asks for a change now and then");
  });
}

}  // namespace harmonaize::daemon
