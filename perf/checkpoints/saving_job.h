#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "daemon/checkpoint_advice/hazard.h"
#include "daemon/checkpoint_advice/save_interval.h"
#include "daemon/checkpoint_advice/save_moment.h"
#include "daemon/checkpoint_advice/save_times.h"
#include "perf/checkpoints/failure_trace.h"

namespace harmonaize::checkpoints {

/// What a checkpoint costs, and what a restart from it.
struct SaveCost {
  std::string name;
  daemon::SavePlace place = daemon::SavePlace::kStorage;
  double stall_seconds = 0;    ///< For how long the job stands still for a checkpoint.
  double safe_seconds = 0;     ///< From its begin until it is safe.
  double restart_seconds = 0;  ///< From a failure until the job works on, but for lost work.
};

/// When a job saves.
struct SavePolicy {
  enum class Kind { kFixed, kAdvice };
  Kind kind = Kind::kFixed;
  double interval_seconds = 0;  ///< kFixed.
  bool hears_notices = true;    ///< kAdvice.
  /// kAdvice: the daemon has seen earlier runs of the job for so long that it knows how often hosts
  /// and ranks fail, and what a checkpoint takes. Otherwise it begins with its priors.
  bool knows_job = false;
  double least_seconds = daemon::kLeastSaveIntervalSeconds;  ///< kAdvice: the provider's bound.
  double delay_seconds = 0;  ///< kAdvice: from the moment until the job hears of it.
};

/// What became of the time of a job, in seconds.
struct Outcome {
  double useful = 0;   ///< Work that was not lost.
  double lost = 0;     ///< Work that was done again.
  double stalled = 0;  ///< For checkpoints.
  double down = 0;     ///< From failures until the job worked on.
  double saves = 0;
  double failures = 0;

  double goodput() const { return useful / (useful + lost + stalled + down); }
};

/// A job that works, saves, and goes back to its last safe checkpoint when it fails. With kAdvice
/// it saves when the daemon's code says so, which knows at the beginning no more than its priors,
/// and then what it sees of this job's hosts and ranks. It begins a checkpoint at the end of a
/// step.
class SavingJob {
 public:
  /// Requires: `failures` outlive this object, the earliest first.
  SavingJob(const FailureOptions& options, const std::vector<Failure>& failures,
            const SaveCost& cost, const SavePolicy& policy, double step_seconds);

  /// Runs it for the time of the options.
  Outcome Run();

 private:
  /// A checkpoint that has begun.
  struct Saving {
    double begun_seconds = 0;
    double work = 0;  ///< What it has of the job.
    double safe_at_seconds = 0;
  };

  double NextSave();
  double NextFailure() const;
  double NextNotice() const;
  void WorkUntil(double at_seconds);
  void BeginSave();
  void EndSave();
  void Fail();
  void Learn(const Failure& failure);
  void KnowJob();
  void UpdateHazard();
  std::vector<daemon::SaveNotice> Notices() const;
  std::optional<double> AdvisedMoment();

  const FailureOptions options_;
  const std::vector<Failure>& failures_;
  const SaveCost cost_;
  const SavePolicy policy_;
  const double step_seconds_;

  double now_ = 0;
  double work_ = 0;
  double saved_work_ = 0;
  double last_save_ = 0;  // when the last checkpoint began, or the job did
  std::optional<double> saved_state_;
  std::optional<Saving> saving_;
  size_t next_failure_ = 0;
  daemon::SaveTimes times_;
  daemon::SeenByCause seen_ = {};
  double watched_ = 0;
  double hazard_ = 0;
  double hazard_at_ = -1;
  Outcome outcome_;
};

}  // namespace harmonaize::checkpoints
