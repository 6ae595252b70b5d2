#pragma once

#include <cstdint>
#include <vector>

#include "daemon/formation/formation_observer.h"
#include "daemon/job_events/job_events.h"

namespace harmonaize::daemon {

/// Tells jobs of ranks that do not come to a communicator that forms (rank.late), and when all have
/// come (rank.recovered). The home of what forms tells: its own subscribers, and the hosts of the
/// job's other communicators. Thread: engine.
class FormingEvents final : public FormationObserver {
 public:
  /// Requires: `events` outlives this object.
  explicit FormingEvents(JobEvents* events) : events_(events) {}

  bool OnFormingLate(Job& job, const Formation& formation, const std::vector<int>& missing,
                     uint64_t now_ns) override;
  void OnFormed(Job& job, const Formation& formation, const std::vector<int>& were_missing,
                uint64_t now_ns) override;

 private:
  JobEvents* const events_;
};

}  // namespace harmonaize::daemon
