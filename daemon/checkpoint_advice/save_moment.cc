#include "daemon/checkpoint_advice/save_moment.h"

#include <algorithm>
#include <cmath>

namespace harmonaize::daemon {
namespace {

/// Margin before a deadline, as a part of the time that a checkpoint takes, and in seconds: clocks
/// differ, and the job hears of its advice a moment later.
constexpr double kMarginPart = 0.25;
constexpr double kMarginSeconds = 2;
/// Length of the window before a deadline, as a part of the time that a checkpoint takes; and least
/// length, in seconds and in steps: a checkpoint begins at the end of a step.
constexpr double kWindowPart = 0.5;
constexpr double kLeastWindowSeconds = 5;
constexpr double kWindowSteps = 2;
/// Length of the window of an interval's checkpoint, as a part of the interval, and at most, in
/// seconds. Within a tenth of the interval hardly more is lost than at its best moment.
constexpr double kIntervalWindowPart = 0.1;
constexpr double kMostIntervalWindowSeconds = 600;
/// How much earlier than an interval ends a checkpoint is taken where the network is idle, as a
/// part of the interval. The time lost in all is 3% above its least there.
constexpr double kIdlePart = 0.2;
/// A checkpoint of the interval is left out where a notice has one within this part of the interval
/// after it.
constexpr double kMergePart = 0.5;

/// Returns the work, in seconds, that would be lost at a time.
double LostAt(double at_seconds, double saved_seconds) {
  return std::max(0.0, at_seconds - saved_seconds);
}

/// One notice, and a checkpoint for it.
class NoticeMoment {
 public:
  NoticeMoment(const SaveView& view, const SaveNotice& notice)
      : view_(view),
        notice_(notice),
        estimate_(notice.spares_host ? view.usual : view.lasting),
        saved_seconds_((notice.spares_host ? view.saved_seconds : view.lasting_seconds)
                           .value_or(view.began_seconds)) {}

  std::optional<SaveMoment> Moment() const {
    return notice_.deadline_seconds.has_value() ? BeforeDeadline(*notice_.deadline_seconds)
                                                : AtOnce();
  }

 private:
  // A checkpoint begins at the end of the step that is under way.
  double Needed(double safe_seconds) const { return safe_seconds + view_.step_seconds; }

  /// Returns whether the work since the last checkpoint is worth another one's stall.
  bool IsWorthIt(double at_seconds) const {
    const double lost = LostAt(at_seconds, saved_seconds_);
    return lost * view_.weight * notice_.confidence > estimate_.stall_seconds;
  }

  SaveMoment Base() const {
    return {.why = notice_.why,
            .notice = notice_.id,
            .not_before_seconds = view_.now_seconds,
            .deadline_seconds = view_.now_seconds,
            .confidence = notice_.confidence,
            .takes = estimate_.safe_seconds,
            .ranks = notice_.ranks};
  }

  std::optional<SaveMoment> BeforeDeadline(double deadline) const {
    if (deadline <= view_.now_seconds) return std::nullopt;
    const double needed = Needed(estimate_.safe_seconds.p90);
    const double latest = deadline - needed * (1 + kMarginPart) - kMarginSeconds;
    if (!IsWorthIt(std::max(latest, view_.now_seconds))) return std::nullopt;
    SaveMoment moment = Base();
    // Where the margin is gone it is tried all the same, for as long as it has been done so fast.
    if (latest < view_.now_seconds) {
      moment.deadline_seconds = deadline - Needed(estimate_.safe_seconds.p10);
      moment.fits = moment.deadline_seconds >= view_.now_seconds;
      if (!moment.fits) moment.deadline_seconds = deadline;
      return moment;
    }
    const double window =
        std::max({needed * kWindowPart, kLeastWindowSeconds, kWindowSteps * view_.step_seconds});
    moment.not_before_seconds = std::max(view_.now_seconds, latest - window);
    moment.deadline_seconds = latest;
    return moment;
  }

  std::optional<SaveMoment> AtOnce() const {
    if (!IsWorthIt(view_.now_seconds)) return std::nullopt;
    // Only a danger of which the last checkpoint knew nothing makes another one at once: those that
    // follow come by the interval, which the danger shortens.
    if (saved_seconds_ >= notice_.told_seconds) return std::nullopt;
    SaveMoment moment = Base();
    moment.deadline_seconds += std::max(kLeastWindowSeconds, kWindowSteps * view_.step_seconds);
    return moment;
  }

  const SaveView& view_;
  const SaveNotice& notice_;
  const SaveEstimate& estimate_;
  const double saved_seconds_;
};

// A job that has come again has restored what was saved, so its work is as old as its coming.
SaveMoment IntervalMoment(const SaveView& view) {
  const double last = std::max({view.began_seconds, view.came_seconds.value_or(0),
                                view.saved_seconds.value_or(0), view.advised_seconds.value_or(0)});
  const double interval = std::max(view.interval_seconds, 1.0);
  double due = last + interval;
  if (view.is_idle && view.now_seconds >= due - kIdlePart * interval) {
    due = std::min(due, view.now_seconds);
  }
  const double window =
      std::max({std::min(kIntervalWindowPart * interval, kMostIntervalWindowSeconds),
                kWindowSteps * view.step_seconds, 1.0});
  // One that was not taken is still to be taken.
  return {.why = SaveReason::kInterval,
          .not_before_seconds = due,
          .deadline_seconds = std::max(due, view.now_seconds) + window,
          .confidence = -std::expm1(-std::max(0.0, view.hazard_per_second) * interval),
          .takes = view.usual.safe_seconds};
}

}  // namespace

std::string_view NameOf(SaveReason reason) {
  switch (reason) {
    case SaveReason::kReclaim: return "reclaim";
    case SaveReason::kMaintenance: return "maintenance";
    case SaveReason::kHostFailing: return "host_failing";
    case SaveReason::kLinkFailing: return "link_failing";
    case SaveReason::kServiceRestart: return "service_restart";
    case SaveReason::kPrice: return "price";
    case SaveReason::kInterval: return "interval";
    case SaveReason::kRequest: return "request";
  }
  return "";
}

std::vector<SaveMoment> MomentsOf(const SaveView& view) {
  std::vector<SaveMoment> moments;
  for (const SaveNotice& notice : view.notices) {
    if (std::optional<SaveMoment> moment = NoticeMoment(view, notice).Moment()) {
      moments.push_back(std::move(*moment));
    }
  }
  const SaveMoment regular = IntervalMoment(view);
  const double merge_until =
      regular.not_before_seconds + kMergePart * std::max(view.interval_seconds, 1.0);
  const bool is_covered = std::any_of(moments.begin(), moments.end(), [&](const SaveMoment& one) {
    return one.fits && one.not_before_seconds <= merge_until;
  });
  if (!is_covered) moments.push_back(regular);
  // Those that cannot be done in time ask for nothing, and come last.
  std::stable_sort(moments.begin(), moments.end(), [](const SaveMoment& a, const SaveMoment& b) {
    if (a.fits != b.fits) return a.fits;
    return a.not_before_seconds < b.not_before_seconds;
  });
  return moments;
}

double HazardOfNotices(std::span<const SaveNotice> notices) {
  double hazard = 0;
  for (const SaveNotice& notice : notices) {
    if (notice.deadline_seconds.has_value()) continue;
    hazard += std::clamp(notice.confidence, 0.0, 1.0) / kConditionSeconds;
  }
  return hazard;
}

}  // namespace harmonaize::daemon
