#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace harmonaize::daemon {

/// The values with which a job trains, as far as it has said them.
struct TrainingSettings {
  std::optional<double> batch_size = {};    ///< Samples of a step, of all ranks together.
  std::optional<double> accumulation = {};  ///< Backward passes between two exchanges.
  std::optional<double> synchronisation_interval = {};  ///< Steps between two exchanges.
  std::optional<double> learning_rate_factor = {};      ///< By which the rate is multiplied.

  bool operator==(const TrainingSettings&) const = default;
};

/// What a job says of how far it has come; what it leaves out is not known.
struct ProgressReport {
  uint64_t step = 0;
  std::optional<double> samples = {};  ///< Processed in all.
  std::optional<double> loss = {};
  std::optional<double> accuracy = {};  ///< From 0 to 1.
  TrainingSettings settings = {};       ///< Those of the step.
  /// Batch size, in samples, from which on larger batches bring little. Source: "gradient noise
  /// scale" of McCandlish et al., An Empirical Model of Large-Batch Training.
  std::optional<double> gradient_noise_scale = {};
  std::optional<double> samples_in_all = {};  ///< To be processed until the job is done.
};

/// What one step takes.
struct StepTimes {
  double step_seconds = 0;
  double exchange_seconds = 0;  ///< The part of it in which operations were under way.
};

/// The last steps of one job, as its ranks have told of them. A plain value.
class JobProgress {
 public:
  /// Takes in a report that came at this time, in seconds. `exchange_seconds` is for how long the
  /// job's operations were under way until then. Returns whether it is news: several ranks may tell
  /// of one step.
  bool Take(const ProgressReport& report, double now_seconds, double exchange_seconds);

  /// Forgets the times of steps: those to come are others.
  void BeginAnew();

  /// The newest report; nullopt if there was none.
  const std::optional<ProgressReport>& last() const { return last_; }
  /// Returns the median time of one of the last steps, in seconds; nullopt before the third report.
  std::optional<double> StepSeconds() const;
  /// Returns medians over the newest steps with the settings of the last one; nullopt if there are
  /// too few.
  std::optional<StepTimes> RecentTimes() const;
  /// Returns how many samples the newest step had; nullopt if the job does not tell.
  std::optional<double> SamplesOfStep() const;

  /// Returns for how long the job stood still when its steps were last forgotten, in seconds: the
  /// time between the last report before and the first one after, less that of a step. nullopt if
  /// that is not known.
  std::optional<double> PauseSeconds() const { return pause_seconds_; }

  /// Reports of which the times are kept.
  static constexpr size_t kKept = 32;
  /// Times between reports that RecentTimes looks at: few, so that it soon tells of a change.
  static constexpr size_t kRecent = 8;
  /// Fewest times from which RecentTimes tells something: one that was held up does not count.
  static constexpr size_t kFewestRecent = 4;

 private:
  struct Step {
    uint64_t step = 0;
    double at_seconds = 0;
    double exchange_seconds = 0;  ///< Until then.
    uint64_t settings = 0;        ///< Counts changes of the settings.
    std::optional<double> samples = {};
  };
  /// Returns what a step took on average between two reports.
  static StepTimes Between(const Step& earlier, const Step& later);

  std::deque<Step> steps_;
  std::optional<ProgressReport> last_;
  /// When the job would have told of its next step, had it not been stopped; nullopt: it was not.
  std::optional<double> awaited_seconds_;
  std::optional<double> pause_seconds_;
};

}  // namespace harmonaize::daemon
