#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/identity/job_identity.h"
#include "daemon/jobs/exchange_time.h"
#include "daemon/jobs/recent_numbers.h"
#include "src/requirements/terms.h"

namespace harmonaize::daemon {

struct Tenant;

/// What communicators of a job have done that have ended here. What ranks did inline is what they
/// say, so no sum overflows.
struct EndedCommunicators {
  uint64_t count = 0;
  uint64_t operations = 0;
  uint64_t bytes = 0;
  int ranks = 0;  ///< Of the largest.
};

/// A job, as far as it is on this host. Thread: engine.
struct Job {
  JobIdentity id;
  Tenant* tenant = nullptr;
  std::string name = {};  ///< "": none was given.
  JobKind kind = JobKind::kUnknown;
  double began_seconds = 0;  ///< Since 1970.
  double ended_seconds = 0;  ///< Since 1970; 0: it is here.
  int communicators = 0;     ///< Number of its communicators that are here.
  int forming = 0;           ///< Number of its communicators that wait for ranks at this home.
  int agents = 0;            ///< Number of its agents on this host.
  int profiled = 0;          ///< Number of its processes whose NCCL tells of profiler events.
  EndedCommunicators ended_communicators = {};
  RecentNumbers heard = {};  ///< Event::unique of its last events.
  /// How long its operations took here; nullopt until somebody wants to know.
  std::optional<ExchangeTime> exchanges = {};
  /// What was granted to it; never nullptr. Another one takes its place when that changes.
  std::shared_ptr<const JobTerms> terms = std::make_shared<const JobTerms>();

  /// Returns the name, or the beginning of the id, for people.
  std::string label() const { return name.empty() ? id.text().substr(0, 8) : name; }

  /// Returns whether it has communicators here, formed or not, an agent, or a process whose NCCL
  /// tells of profiler events.
  bool is_here() const { return communicators > 0 || forming > 0 || agents > 0 || profiled > 0; }
};

/// The jobs that are on this host, or were a moment ago. Thread: engine.
class JobTable {
 public:
  using Key = std::pair<uint32_t, JobIdentity>;  ///< TenantIdentity::number, and the id.
  static Key KeyOf(const Job& job);

  /// Returns the job with this id. The first call makes it. `claim` is that of one of its processes
  /// here; what it says of another job does not count.
  Job* Of(const JobIdentity& id, Tenant* tenant, const JobClaim& claim);
  Job* FindById(const JobIdentity& id, uint32_t tenant);
  /// Returns the jobs here with this id, or else with this name: of the tenant with
  /// TenantIdentity::number, or of all tenants. Of several of one tenant it is the one that began
  /// last.
  std::vector<Job*> FindAll(std::optional<uint32_t> tenant, std::string_view which) const;

  /// Notes that a communicator belongs to the job. Throws nothing.
  static void Add(Job* job) noexcept;
  /// Notes that a communicator of the job has gone, and what it did. A job without communicators is
  /// kept for a while, so that people can still look at it.
  void Remove(Job* job, const EndedCommunicators& ended);
  /// Adds one to a count of the job's, which keeps it here: Job::forming, Job::agents or
  /// Job::profiled. Throws nothing.
  static void Hold(Job* job, int Job::*count) noexcept;
  /// Takes it away again. Throws nothing.
  void Release(Job* job, int Job::*count) noexcept;
  /// Forgets jobs that ended long ago.
  void ForgetOld();

  const std::map<Key, std::unique_ptr<Job>>& all() const { return jobs_; }

 private:
  void EndIfEmpty(Job* job);
  void ForgetOldestOf(const Tenant& tenant);

  std::map<Key, std::unique_ptr<Job>> jobs_;
};

/// Keeps a job in the table while a communicator of it forms, an agent of it is here, or a process
/// of it tells of profiler events. Requires: the table lives longer.
class JobHold {
 public:
  JobHold() = default;
  /// `count` is Job::forming, Job::agents or Job::profiled.
  JobHold(JobTable* table, Job* job, int Job::*count) : table_(table), job_(job), count_(count) {
    JobTable::Hold(job, count);
  }
  JobHold(JobHold&& other) noexcept
      : table_(other.table_), job_(std::exchange(other.job_, nullptr)), count_(other.count_) {}
  JobHold& operator=(JobHold&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(job_, other.job_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~JobHold() {
    if (job_ != nullptr) table_->Release(job_, count_);
  }

  /// Returns nullptr where nothing is held.
  Job* job() const { return job_; }

 private:
  JobTable* table_ = nullptr;
  Job* job_ = nullptr;
  int Job::*count_ = nullptr;
};

}  // namespace harmonaize::daemon
