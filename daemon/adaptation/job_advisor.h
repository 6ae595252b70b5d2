#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "daemon/adaptation/job_progress.h"
#include "daemon/adaptation/training_advice.h"
#include "daemon/communicator/communicator_observer.h"

namespace harmonaize::daemon {

class JobCommunicators;
class JobEvents;
struct Job;

/// Hears how far jobs have come, and advises those that have stated ranges in [adapt]. The daemon
/// of the host where a job's rank reports advises it; the event goes to all hosts of the job.
/// Thread: engine.
class JobAdvisor final : public CommunicatorObserver {
 public:
  /// All of these outlive this object.
  struct Services {
    const JobCommunicators* by_job = nullptr;
    JobEvents* events = nullptr;
  };

  explicit JobAdvisor(const Services& services) : services_(services) {}

  /// Takes in how far the job has come, as one of its ranks here tells. Errors: kInvalidUsage if
  /// the job has no communicator here.
  Status Report(Job& job, const ProgressReport& report);
  /// Returns what is known of a job's steps; nullptr if it has told of none.
  const JobProgress* Find(const Job& job) const;

  // CommunicatorObserver.

  void OnFormed(const Communicator& communicator, int hosts) override;
  void OnCongestionChanged(const Communicator& communicator, CongestionLevel level,
                           double times) override;
  void OnLinksChanged(const Communicator& communicator, bool degraded, double times) override;
  void OnEnded(const Communicator& communicator) override;

 private:
  struct Entry {
    JobProgress progress;
    /// Shortest time of a step for its work (samples, or backward passes), in seconds; 0: none is
    /// known.
    double least_per_unit = 0;
    std::optional<TrainingAdvice> advice = {};  ///< The last one, while anything is advised.
    uint64_t advised_step = 0;                  ///< At which it was given.
  };

  void Advise(Job& job, Entry& entry);
  static TrainingView ViewOf(const Job& job, const StepTimes& times, Entry& entry);
  std::string_view WhyOf(const Job& job, const TrainingAdvice& advice) const;

  const Services services_;
  std::map<const Job*, Entry> entries_;
  std::set<uint64_t> congested_;  ///< Communicator::id where there is some congestion.
  std::set<uint64_t> degraded_;   ///< Communicator::id that cut links slow down.
};

}  // namespace harmonaize::daemon
