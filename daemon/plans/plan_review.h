#pragma once

#include <vector>

#include "src/planner/collective_plan.h"

namespace harmonaize::daemon {

/// Decides when plans give way to better ones: a change costs something, and what is predicted
/// wavers with what is measured. So a plan is changed only for a gain above a threshold which holds
/// for several reviews in a row, and after a change nothing is changed for a while: the longer, the
/// more changes there were of late, so that a fabric that swings does not swing the plans.
///
/// One communicator's. One thread's; time is passed in.
class PlanReview {
 public:
  /// `least_gain`: how many times as fast the best has to be, above 1.
  explicit PlanReview(double least_gain) : least_gain_(least_gain) {}

  /// A plan in use and the best there is now.
  struct Candidate {
    PlanKey key;
    double current_seconds = 0;
    double best_seconds = 0;
    double weight = 1;  ///< How much time operations of this kind take; relative.
  };
  /// One review: the keys whose plans are to change now. What counts is what all of them gain
  /// together, each by its weight.
  std::vector<PlanKey> Decide(const std::vector<Candidate>& candidates, double now_seconds);
  /// Whether a gain has been seen that has yet to hold, or to wait: review again soon.
  bool pending() const { return pending_; }
  /// A change has been committed.
  void NoteChange(double now_seconds);

  /// Reviews in a row that have to see the gain.
  static constexpr int kReviews = 2;
  static constexpr double kFirstRestSeconds = 0.5;
  static constexpr double kLongestRestSeconds = 32;
  /// A change after so many rests of quiet begins with the first rest again.
  static constexpr double kForgottenRests = 8;

 private:
  const double least_gain_;
  int reviews_ = 0;  // in a row that saw the gain
  bool pending_ = false;
  double changed_seconds_ = -1e18;
  double rest_seconds_ = 0;
};

}  // namespace harmonaize::daemon
