#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "src/transport/message.h"

namespace harmonaize::daemon {

struct Job;

/// Ties between two hosts of a job that need no communicator: one of them has an agent of the job,
/// and perhaps no ranks, and the other one has ranks. Both know a tie by the agent's number. An
/// agent may have ties with several hosts. Thread: engine.
class JobAttachments {
 public:
  /// Notes a tie. It may be there.
  void Add(Job* job, uint64_t agent, transport::PeerId peer);
  /// Forgets one. It need not be there.
  void Remove(uint64_t agent, transport::PeerId peer);

  /// Returns the job of this tie; nullptr if there is none.
  Job* JobOf(uint64_t agent, transport::PeerId peer) const;

  /// Calls `visit(job, agent, peer)` with the job's ties.
  template <typename Visit>
  void VisitOf(const Job& job, Visit&& visit) const {
    const auto found = of_job_.find(&job);
    if (found == of_job_.end()) return;
    for (const Tie& tie : found->second) visit(ties_.at(tie), tie.first, tie.second);
  }

 private:
  using Tie = std::pair<uint64_t, transport::PeerId>;  ///< The agent's number, and the other host.

  std::map<Tie, Job*> ties_;
  std::map<const Job*, std::set<Tie>> of_job_;
};

}  // namespace harmonaize::daemon
