#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/jobs/job_table.h"
#include "daemon/profiles/profile_collector.h"
#include "daemon/tenant/region.h"
#include "daemon/tenant/session.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// What NCCL's profiler plugin tells of jobs on this host. Thread: engine, which only finds things
/// here: the rings are read elsewhere, and reports are made elsewhere.
class Profiles {
 public:
  /// `events` are those that the provider wants, of ProfileEvents. Requires: `jobs` outlives this.
  Profiles(JobTable* jobs, uint32_t events) : jobs_(jobs), events_(events) {}

  /// Has the ring of a session's process read, whose events count as those of its job. The job is
  /// in the table for as long. `communicator` is NCCL's hash of the first communicator's id, or 0.
  /// Returns the events that the process should tell of. Errors: kInvalidUsage if the session has a
  /// ring, or the tenant has no memory left.
  Result<uint32_t> Open(Session& session, uint64_t communicator,
                        std::shared_ptr<RegionMemory> memory);
  /// Ends what Open began, if it did. Thread: also none, when the engine has ended.
  void Close(uint32_t session);

  /// Returns what is known of a job's events; nullptr: nothing.
  std::shared_ptr<const JobProfile> Find(const Job& job);

  struct Known {
    const Job* job;
    std::shared_ptr<const JobProfile> profile;
  };
  /// Returns the jobs of which something is known: of the tenant with TenantIdentity::number, or
  /// all.
  std::vector<Known> All(std::optional<uint32_t> tenant);

  ProfileCollector::Counts counts() const { return collector_.counts(); }

 private:
  struct Source {
    JobHold hold;
    Holding memory;
    uint64_t ring = 0;
  };

  Job* JobOf(Session& session, uint64_t communicator);
  void ForgetGone();

  JobTable* const jobs_;
  const uint32_t events_;
  std::map<JobTable::Key, std::shared_ptr<JobProfile>> profiles_;
  std::map<uint32_t, Source> sources_;  // by session
  ProfileCollector collector_;
};

}  // namespace harmonaize::daemon
