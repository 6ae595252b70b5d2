#include "daemon/plans/plan_review.h"

#include <algorithm>

namespace harmonaize::daemon {
namespace {

/// Least gain, as a factor, of a plan that changes along with one that gains enough.
constexpr double kWorthTelling = 1.01;

}  // namespace

std::vector<PlanKey> PlanReview::Decide(const std::vector<Candidate>& candidates,
                                        double now_seconds) {
  double current = 0;
  double best = 0;
  for (const Candidate& one : candidates) {
    if (one.current_seconds <= 0) continue;
    current += one.weight;
    best += one.weight * one.best_seconds / one.current_seconds;
  }
  const bool gains = current > 0 && current >= least_gain_ * best;
  reviews_ = gains ? reviews_ + 1 : 0;
  pending_ = gains;
  if (reviews_ < kReviews || now_seconds < changed_seconds_ + rest_seconds_) return {};
  std::vector<PlanKey> keys;
  for (const Candidate& one : candidates) {
    if (one.current_seconds >= kWorthTelling * one.best_seconds) keys.push_back(one.key);
  }
  return keys;
}

void PlanReview::NoteChange(double now_seconds) {
  const bool calm = now_seconds - changed_seconds_ > kForgottenRests * rest_seconds_;
  rest_seconds_ = calm ? kFirstRestSeconds : std::min(2 * rest_seconds_, kLongestRestSeconds);
  changed_seconds_ = now_seconds;
  reviews_ = 0;
  pending_ = false;
}

}  // namespace harmonaize::daemon
