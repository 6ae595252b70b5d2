#include "daemon/adaptation/job_advisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/communicator/communicator.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/job_events/job_events.h"
#include "daemon/jobs/job_table.h"
#include "src/base/clock.h"
#include "src/base/wall_clock.h"
#include "src/events/event_data.h"

namespace harmonaize::daemon {
namespace {

/// Steps that a job does between two pieces of advice at least: it has to hear of the first one,
/// and to show what came of it.
constexpr uint64_t kStepsBetween = 8;
/// A piece of advice that was not followed is given again after so many steps.
constexpr uint64_t kAgainAfterSteps = 1024;
/// Values that differ by less than so many times are one piece of advice.
constexpr double kOther = 1.5;

bool AsksForAdvice(const AdaptTerms& terms) {
  return terms.accumulation.has_value() || terms.batch_size.has_value() ||
         terms.synchronisation_interval.has_value();
}

/// Returns whether a job that has got one piece of advice needs no other one: measured times vary,
/// and the best value with them.
bool IsMuchTheSame(const TrainingAdvice& known, const TrainingAdvice& advice) {
  return known.setting == advice.setting && known.from == advice.from &&
         (known.to > known.from) == (advice.to > advice.from) &&
         std::max(known.to, advice.to) < kOther * std::min(known.to, advice.to);
}

/// Returns the work of a step: samples, backward passes, or 1, as far as the job tells.
double UnitsOf(const TrainingSettings& settings) {
  if (settings.batch_size.has_value()) return *settings.batch_size;
  return settings.accumulation.value_or(1);
}

/// Returns the rate at which a job would be done in time, in samples a second; 0: none is needed.
double NeededRate(const AdaptTerms& terms, const ProgressReport& report) {
  if (!terms.deadline.has_value() || !report.samples_in_all.has_value()) return 0;
  const double left = *report.samples_in_all - report.samples.value_or(0);
  const double seconds = *terms.deadline - UnixSeconds();
  return left > 0 && seconds > 0 ? left / seconds : 0;
}

EventData DataOf(const TrainingAdvice& advice, const StepTimes& times, std::string_view why) {
  const bool has_rate = advice.learning_rate_factor.has_value();
  EventData data(
      EventType::kAdaptationAdvised,
      fmt::format(
          "{} {:g} instead of {:g}{} is expected to bring the job on {:.2f} times as fast: "
          "operations are under way in {:.0f}% of a step of {:.3g} s",
          advice.setting, advice.to, advice.from,
          has_rate
              ? fmt::format(", with a learning rate times {:.4g},", *advice.learning_rate_factor)
              : "",
          advice.gain, 100 * times.exchange_seconds / times.step_seconds, times.step_seconds));
  data.Set(harmonaize::fields::kSetting, advice.setting)
      .Set(harmonaize::fields::kFrom, advice.from)
      .Set(harmonaize::fields::kTo, advice.to)
      .Set(harmonaize::fields::kWhy, why)
      .Set(harmonaize::fields::kExpected, advice.expected_step)
      .Set(harmonaize::fields::kGain, advice.gain);
  if (has_rate) data.Set(harmonaize::fields::kLearningRateFactor, *advice.learning_rate_factor);
  return data;
}

}  // namespace

Status JobAdvisor::Report(Job& job, const ProgressReport& report) {
  if (!services_.by_job->Has(&job)) {
    return InvalidUsage(
        "job '{}' has no communicator on this host; progress is told of jobs that run",
        job.label());
  }
  // Operations are timed from the first report on.
  if (!job.exchanges.has_value()) job.exchanges.emplace();
  Entry& entry = entries_[&job];
  const double now = static_cast<double>(MonotonicNanoseconds()) * 1e-9;
  if (!entry.progress.Take(report, now, job.exchanges->seconds())) return Status::Ok();
  if (AsksForAdvice(job.terms->adapt())) Advise(job, entry);
  return Status::Ok();
}

const JobProgress* JobAdvisor::Find(const Job& job) const {
  const auto found = entries_.find(&job);
  return found == entries_.end() ? nullptr : &found->second.progress;
}

TrainingView JobAdvisor::ViewOf(const Job& job, const StepTimes& times, Entry& entry) {
  const ProgressReport& report = *entry.progress.last();
  const double per_unit = times.step_seconds / UnitsOf(report.settings);
  if (entry.least_per_unit == 0) entry.least_per_unit = per_unit;
  entry.least_per_unit = std::min(entry.least_per_unit, per_unit);
  return {.terms = job.terms->adapt(),
          .settings = report.settings,
          .times = times,
          .most_computation_seconds = entry.least_per_unit * UnitsOf(report.settings),
          .samples_per_step = entry.progress.SamplesOfStep().value_or(0),
          .gradient_noise_scale = report.gradient_noise_scale.value_or(0),
          .needed_samples_per_second = NeededRate(job.terms->adapt(), report)};
}

void JobAdvisor::Advise(Job& job, Entry& entry) {
  const std::optional<StepTimes> times = entry.progress.RecentTimes();
  if (!times.has_value()) return;
  const TrainingView view = ViewOf(job, *times, entry);
  const uint64_t step = entry.progress.last()->step;
  const uint64_t since = step - std::min(step, entry.advised_step);
  if (entry.advice.has_value() && since < kStepsBetween) return;
  const std::optional<TrainingAdvice> advice = AdviseTraining(view);
  if (!advice.has_value()) {
    entry.advice.reset();
    return;
  }
  if (entry.advice.has_value() && IsMuchTheSame(*entry.advice, *advice) &&
      since < kAgainAfterSteps) {
    return;
  }
  if (!services_.events->MayTellMore(job.tenant->identity)) return;
  const std::string_view why = WhyOf(job, *advice);
  entry.advice = advice;
  entry.advised_step = step;
  services_.events->Tell(job, {EventType::kAdaptationAdvised, "", DataOf(*advice, *times, why)});
}

std::string_view JobAdvisor::WhyOf(const Job& job, const TrainingAdvice& advice) const {
  const std::vector<uint64_t> ids = services_.by_job->IdsOf(job);
  const auto any_in = [&](const std::set<uint64_t>& troubled) {
    return std::any_of(ids.begin(), ids.end(), [&](uint64_t id) { return troubled.contains(id); });
  };
  if (advice.to < advice.from) return "short_exchanges";
  if (any_in(degraded_)) return "link_degraded";
  if (any_in(congested_)) return "congestion";
  return "long_exchanges";
}

// Other ranks, or other links, make other steps.
void JobAdvisor::OnFormed(const Communicator& communicator, int /*hosts*/) {
  const auto found = entries_.find(communicator.job());
  if (found == entries_.end()) return;
  found->second.progress.BeginAnew();
  found->second.least_per_unit = 0;
}

void JobAdvisor::OnCongestionChanged(const Communicator& communicator, CongestionLevel level,
                                     double /*times*/) {
  if (level == CongestionLevel::kNone) {
    congested_.erase(communicator.id());
  } else {
    congested_.insert(communicator.id());
  }
}

void JobAdvisor::OnLinksChanged(const Communicator& communicator, bool degraded, double /*times*/) {
  if (degraded) {
    degraded_.insert(communicator.id());
  } else {
    degraded_.erase(communicator.id());
  }
}

void JobAdvisor::OnEnded(const Communicator& communicator) {
  congested_.erase(communicator.id());
  degraded_.erase(communicator.id());
  if (services_.by_job->Has(communicator.job())) return;
  entries_.erase(communicator.job());
  communicator.job()->exchanges.reset();
}

}  // namespace harmonaize::daemon
