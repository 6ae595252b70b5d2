#include "perf/checkpoints/saving_job.h"

#include <algorithm>
#include <limits>

#include "daemon/checkpoint_advice/save_interval.h"

namespace harmonaize::checkpoints {
namespace {

using daemon::FailureCause;

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Time, in seconds, after which the hazard is reckoned again where nothing has failed: it changes
/// by less than a percent in that. The daemon does so at every look.
constexpr double kHazardSeconds = 600;
/// Ranks of a host.
constexpr double kRanksPerHost = 8;

}  // namespace

SavingJob::SavingJob(const FailureOptions& options, const std::vector<Failure>& failures,
                     const SaveCost& cost, const SavePolicy& policy, double step_seconds)
    : options_(options),
      failures_(failures),
      cost_(cost),
      policy_(policy),
      step_seconds_(step_seconds) {
  if (policy_.knows_job) KnowJob();
}

double SavingJob::NextFailure() const {
  return next_failure_ < failures_.size() ? failures_[next_failure_].at_seconds : kNever;
}

// Returns when the next of the failures to come is announced.
double SavingJob::NextNotice() const {
  double next = kNever;
  for (size_t i = next_failure_; i < failures_.size(); ++i) {
    const Failure& failure = failures_[i];
    if (failure.at_seconds - options_.long_notice_seconds > next) break;
    const double told = failure.at_seconds - failure.notice_seconds;
    if (failure.notice_seconds > 0 && told > now_) next = std::min(next, told);
  }
  return next;
}

std::vector<daemon::SaveNotice> SavingJob::Notices() const {
  std::vector<daemon::SaveNotice> notices;
  if (!policy_.hears_notices) return notices;
  for (size_t i = next_failure_; i < failures_.size(); ++i) {
    const Failure& failure = failures_[i];
    if (failure.at_seconds - options_.long_notice_seconds > now_) break;
    const double told = failure.at_seconds - failure.notice_seconds;
    if (failure.notice_seconds <= 0 || told > now_) continue;
    notices.push_back({.id = std::to_string(i),
                       .why = daemon::SaveReason::kReclaim,
                       .deadline_seconds = failure.at_seconds,
                       .told_seconds = told});
  }
  return notices;
}

void SavingJob::UpdateHazard() {
  const double seconds = now_ - watched_;
  watched_ = now_;
  for (daemon::SeenFailures& seen : seen_) seen.Age(seconds);
  for (size_t i = 0; i < seen_.size(); ++i) {
    const bool is_rank = static_cast<FailureCause>(i) == FailureCause::kRank;
    seen_[i].unit_seconds += options_.hosts * (is_rank ? kRanksPerHost : 1) * seconds;
  }
  hazard_ =
      daemon::HazardOf(seen_, {.ranks = options_.hosts * kRanksPerHost, .hosts = options_.hosts})
          .mean;
  hazard_at_ = now_;
}

/// Returns what has to be seen of a cause for its rate to be this one, in events of a unit in a
/// second.
static daemon::SeenFailures SeenFor(FailureCause cause, double rate) {
  const daemon::FailureRate prior(cause, {});
  const double prior_seconds = prior.shape() / prior.Mean();
  const double events = rate * prior_seconds - prior.shape();
  if (events >= 0) return {.events = events, .unit_seconds = 0};
  return {.events = 0, .unit_seconds = prior.shape() / rate - prior_seconds};
}

void SavingJob::KnowJob() {
  times_.Take(cost_.place, cost_.stall_seconds, cost_.safe_seconds);
  const double of_host = 1 / (options_.MtbfSeconds() * options_.hosts);
  const double announced = policy_.hears_notices ? options_.announced_part : 0;
  const double unforeseen = 1 - options_.rank_part - announced;
  seen_[static_cast<size_t>(FailureCause::kRank)] =
      SeenFor(FailureCause::kRank, options_.rank_part * of_host / kRanksPerHost);
  seen_[static_cast<size_t>(FailureCause::kHost)] =
      SeenFor(FailureCause::kHost, unforeseen * of_host);
}

// What the job has heard of before is no failure that the interval has to guard against.
void SavingJob::Learn(const Failure& failure) {
  UpdateHazard();
  if (policy_.hears_notices && failure.notice_seconds > 0) return;
  const FailureCause cause = failure.is_rank ? FailureCause::kRank : FailureCause::kHost;
  seen_[static_cast<size_t>(cause)].events += 1;
  hazard_at_ = -1;
}

// Returns when to begin the next checkpoint; nullopt: not before something else happens.
std::optional<double> SavingJob::AdvisedMoment() {
  if (hazard_at_ < 0 || now_ - hazard_at_ > kHazardSeconds) UpdateHazard();
  const daemon::SaveEstimate usual = times_.Usual(std::nullopt);
  const std::vector<daemon::SaveNotice> notices = Notices();
  const daemon::SaveInterval interval =
      daemon::IntervalOf({.stall_seconds = usual.stall_seconds,
                          .safe_seconds = usual.safe_seconds.p50,
                          .hazard_per_second = hazard_ + daemon::HazardOfNotices(notices),
                          .least_seconds = policy_.least_seconds});
  const std::vector<daemon::SaveMoment> moments =
      daemon::MomentsOf({.now_seconds = now_,
                         .began_seconds = last_save_,
                         .saved_seconds = saved_state_,
                         .lasting_seconds = saved_state_,
                         .interval_seconds = interval.seconds,
                         .hazard_per_second = hazard_,
                         .step_seconds = step_seconds_,
                         .usual = usual,
                         .lasting = times_.Lasting(std::nullopt),
                         .notices = notices});
  if (moments.empty() || !moments.front().fits) return std::nullopt;
  return std::max(now_, moments.front().not_before_seconds);
}

// A checkpoint begins at the end of a step: half a step later, on average.
double SavingJob::NextSave() {
  if (saving_.has_value()) return kNever;
  const double wait = step_seconds_ / 2;
  if (policy_.kind == SavePolicy::Kind::kFixed) {
    return std::max(now_, last_save_ + policy_.interval_seconds) + wait;
  }
  const std::optional<double> moment = AdvisedMoment();
  return moment.has_value() ? *moment + policy_.delay_seconds + wait : kNever;
}

void SavingJob::WorkUntil(double at_seconds) {
  work_ += at_seconds - now_;
  now_ = at_seconds;
}

void SavingJob::BeginSave() {
  const double begun = now_;
  const double until = std::min({now_ + cost_.stall_seconds, NextFailure(), options_.seconds});
  outcome_.stalled += until - now_;
  now_ = until;
  last_save_ = begun;
  if (now_ < begun + cost_.stall_seconds) return;
  outcome_.saves += 1;
  saving_ = {begun, work_, begun + std::max(cost_.safe_seconds, cost_.stall_seconds)};
}

void SavingJob::EndSave() {
  saved_work_ = saving_->work;
  saved_state_ = saving_->begun_seconds;
  times_.Take(cost_.place, cost_.stall_seconds, cost_.safe_seconds);
  saving_.reset();
}

// Failures while the job is down hit hosts that it does not use yet.
void SavingJob::Fail() {
  Learn(failures_[next_failure_]);
  outcome_.failures += 1;
  outcome_.lost += work_ - saved_work_;
  work_ = saved_work_;
  saving_.reset();
  const double until = std::min(now_ + cost_.restart_seconds, options_.seconds);
  outcome_.down += until - now_;
  now_ = until;
  // What is restored is as new as this moment: no work since can be lost.
  last_save_ = now_;
  if (saved_state_.has_value()) saved_state_ = now_;
  while (NextFailure() <= now_) ++next_failure_;
}

Outcome SavingJob::Run() {
  while (now_ < options_.seconds) {
    const double save = NextSave();
    const double safe = saving_.has_value() ? saving_->safe_at_seconds : kNever;
    const double look = policy_.kind == SavePolicy::Kind::kAdvice ? now_ + kHazardSeconds : kNever;
    const double next = std::min({save, safe, NextFailure(), NextNotice(), look, options_.seconds});
    WorkUntil(std::max(next, now_));
    if (now_ >= options_.seconds) break;
    if (safe <= now_) {
      EndSave();
    } else if (NextFailure() <= now_) {
      Fail();
    } else if (save <= now_) {
      BeginSave();
    }
  }
  outcome_.useful = work_;
  return outcome_;
}

}  // namespace harmonaize::checkpoints
