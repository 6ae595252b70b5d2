#pragma once

#include <cstdint>
#include <vector>

#include "src/planner/collective_plan.h"

namespace harmonaize::daemon {

/// Decides when plans give way to better ones. A change costs something, and predictions waver with
/// what is measured. So a plan is changed only for a gain above a threshold which holds for several
/// reviews in a row. After a change nothing is changed for a while: the longer, the more changes
/// there were of late, so that a fabric that swings does not swing the plans.
///
/// Serves one communicator. Thread: one. Time is passed in.
class PlanReview {
 public:
  /// `least_gain` is how many times as fast the best has to be, above 1.
  explicit PlanReview(double least_gain) : least_gain_(least_gain) {}

  /// A plan in use, and the best one now.
  struct Candidate {
    PlanKey key;
    double current_seconds = 0;
    double best_seconds = 0;
    double weight = 1;  ///< How much time operations of this kind take; relative.
  };
  /// Makes one review, and returns the keys whose plans are to change now. The gain of all
  /// candidates together decides, each by its weight.
  std::vector<PlanKey> Decide(const std::vector<Candidate>& candidates, double now_seconds);
  /// Returns whether a gain has been seen that has to hold for longer, or to wait: the caller
  /// reviews again soon.
  bool pending() const { return pending_; }
  /// Notes that a change has been proposed.
  void NoteChange(double now_seconds);

  /// Shortest time between two reviews, in nanoseconds: a gain has to be seen at two times, not
  /// twice at once.
  static constexpr uint64_t kEveryNs = 80'000'000;
  /// Number of reviews in a row that have to see the gain.
  static constexpr int kReviews = 2;
  /// Rest, in seconds, after a first change; it doubles with each change that soon follows.
  static constexpr double kFirstRestSeconds = 0.5;
  /// Longest rest, in seconds.
  static constexpr double kLongestRestSeconds = 32;
  /// Number of rests of quiet after which a change begins with the first rest again.
  static constexpr double kForgottenRests = 8;

 private:
  const double least_gain_;
  int reviews_ = 0;  // in a row that saw the gain
  bool pending_ = false;
  double changed_seconds_ = -1e18;
  double rest_seconds_ = 0;
};

}  // namespace harmonaize::daemon
