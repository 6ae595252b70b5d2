#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace harmonaize::daemon {

/// What a job says of how far it has come; what it leaves out is not known.
struct ProgressReport {
  uint64_t step = 0;
  std::optional<double> samples = {};  ///< Processed in all.
  std::optional<double> loss = {};
  std::optional<double> accuracy = {};  ///< From 0 to 1.
};

/// The last steps of one job, as its ranks have told of them. A plain value.
class JobProgress {
 public:
  /// Takes in a report that came at this time, in seconds. Returns whether it is news: several
  /// ranks may tell of one step.
  bool Take(const ProgressReport& report, double now_seconds);

  /// The newest report; nullopt if there was none.
  const std::optional<ProgressReport>& last() const { return last_; }
  /// Returns the median time of one of the last steps, in seconds; nullopt before the third report.
  std::optional<double> StepSeconds() const;

  /// Reports of which the times are kept.
  static constexpr size_t kKept = 32;

 private:
  struct Step {
    uint64_t step = 0;
    double at_seconds = 0;
  };
  std::deque<Step> steps_;
  std::optional<ProgressReport> last_;
};

}  // namespace harmonaize::daemon
