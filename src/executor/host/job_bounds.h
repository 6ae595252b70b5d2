#pragma once

#include <cstdint>
#include <deque>

#include "src/base/intrusive_list.h"
#include "src/executor/host/execution.h"

namespace harmonaize {

/// Keeps the bounds of jobs on the threads that work for them (Operands::most_workers), by holding
/// executions back. An admitted execution counts with all the threads that it may have, and the
/// board lets it have no more. The next one of its job is admitted when it fits beside. So many
/// small executions of a job run at a time, and one large one. A job's executions are admitted in
/// the order of Admit.
///
/// It allocates only where more bounded jobs have executions at once than ever before. Thread: the
/// executor's owner.
class JobBounds {
 public:
  /// Admits a bounded execution and returns true, or holds it. It stays until Leave.
  bool Admit(Execution* execution);
  /// Removes an execution, whether it was admitted or is held. Others of its job may fit then.
  void Leave(Execution* execution);
  /// Admits and returns the oldest execution that is held of the job of `left`, which Leave has
  /// just removed; nullptr if there is none or if it does not fit yet.
  Execution* TakeNext(const Execution& left);

 private:
  struct Job {
    uint32_t tenant = 0;
    uint64_t job = 0;
    int executions = 0;  // 0: the place is free
    int threads = 0;     // of those that are admitted
    IntrusiveList<Execution> held;
  };

  int PlaceOf(const Execution& execution);
  Job& JobAt(int place) { return jobs_[static_cast<size_t>(place)]; }
  static bool Fits(const Job& job, const Execution& execution) {
    return job.threads + execution.most_threads() <= execution.bound().most_workers;
  }

  std::deque<Job> jobs_;
};

}  // namespace harmonaize
