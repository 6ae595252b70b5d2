#include "src/executor/host/job_bounds.h"

namespace harmonaize {

bool JobBounds::Admit(Execution* execution) {
  execution->job_place_ = PlaceOf(*execution);
  Job& job = JobAt(execution->job_place_);
  ++job.executions;
  if (!job.held.empty() || !Fits(job, *execution)) {
    job.held.PushBack(execution);
    execution->phase_ = Execution::Phase::kHeld;
    return false;
  }
  job.threads += execution->most_threads();
  return true;
}

void JobBounds::Leave(Execution* execution) {
  Job& job = JobAt(execution->job_place_);
  --job.executions;
  if (execution->phase_ == Execution::Phase::kHeld) {
    execution->Unlink();
  } else {
    job.threads -= execution->most_threads();
  }
}

Execution* JobBounds::TakeNext(const Execution& left) {
  Job& job = JobAt(left.job_place_);
  if (job.held.empty() || !Fits(job, *job.held.Front())) return nullptr;
  Execution* const execution = job.held.PopFront();
  execution->phase_ = Execution::Phase::kWaiting;
  job.threads += execution->most_threads();
  return execution;
}

// Returns the place of the execution's job, or a free one that becomes its job's.
int JobBounds::PlaceOf(const Execution& execution) {
  const uint32_t tenant = execution.bound().tenant;
  const uint64_t number = execution.bound().job;
  Job* free = nullptr;
  int place = 0;
  int free_place = 0;
  for (Job& job : jobs_) {
    if (job.executions > 0 && job.tenant == tenant && job.job == number) return place;
    if (job.executions == 0 && free == nullptr) {
      free = &job;
      free_place = place;
    }
    ++place;
  }
  if (free == nullptr) {
    free = &jobs_.emplace_back();
    free_place = place;
  }
  free->tenant = tenant;
  free->job = number;
  return free_place;
}

}  // namespace harmonaize
