#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/diagnosis/verdict.h"
#include "daemon/job_events/job_events.h"

namespace harmonaize::daemon {

/// Tells jobs which of their ranks keep operations from ending (rank.late), and when these get on
/// (rank.recovered). Of a communicator of several hosts the home tells, at all hosts. While the
/// home does not answer, each other host tells that to its own ranks. Ranks that are lost, and
/// those that disagree, are told of by JobEvents. Thread: engine.
class HangEvents final : public VerdictObserver {
 public:
  /// Requires: `events` outlives this object.
  explicit HangEvents(JobEvents* events) : events_(events) {}

  void OnRaised(const Communicator& communicator, const Verdict& verdict) override;
  void OnChanged(const Communicator& communicator, const Verdict& before,
                 const Verdict& now) override;
  void OnCleared(const Communicator& communicator, const Verdict& verdict) override;

 private:
  /// A rank.late that was told.
  struct Late {
    uint64_t since_ns = 0;
    std::string operation;
    std::vector<int> ranks;
    bool here_alone = false;  ///< It was told at this host alone.
  };

  void TellLate(const Communicator& communicator, const Verdict& verdict);
  void TellRecovered(const Communicator& communicator, const Late& late);
  void Tell(const Communicator& communicator, bool here_alone, JobEvents::News news);

  JobEvents* const events_;
  std::map<uint64_t, Late> late_;  ///< By Communicator::id.
};

}  // namespace harmonaize::daemon
