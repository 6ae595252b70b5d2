#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/checkpoint_advice/hazard.h"
#include "daemon/checkpoint_advice/job_saves.h"
#include "daemon/checkpoint_advice/provider_hazard.h"
#include "daemon/checkpoint_advice/save_interval.h"
#include "daemon/checkpoint_advice/save_moment.h"
#include "daemon/communicator/communicator_observer.h"
#include "daemon/identity/job_identity.h"
#include "daemon/quota/rate_table.h"
#include "daemon/runtime/lifetime.h"
#include "daemon/runtime/loop_timer.h"
#include "src/base/status.h"
#include "src/events/event.h"

namespace harmonaize::daemon {

class Cluster;
class EventLoop;
class JobAdvisor;
class JobCommunicators;
class JobEvents;
class PromiseBook;
class RecordKeeper;
class TenantTable;
struct Job;
struct Tenant;

/// All that is known of when a job should save. A plain value.
struct CheckpointAdvice {
  double now_seconds = 0;  ///< Since 1970.
  bool asks = false;       ///< The job has asked for advice, or has reported checkpoints.
  JobUnits units = {};
  JobHazard hazard = {};
  double notice_hazard = 0;  ///< What conditions add to it now, in failures a second.
  double rank_failures = 0;  ///< Failures of the job's own that were seen.
  SaveInterval interval = {};
  Spread optimum_seconds = {};  ///< The optimum for the hazard's quantiles: p10 is the shortest.
  SaveEstimate usual = {};
  SaveEstimate lasting = {};
  std::vector<SaveMoment> moments = {};  ///< The soonest first.
  std::optional<SavedReport> last = {};
  std::optional<double> saved_seconds = {};
};

/// Advises jobs when to save, as events at all hosts of a job and when asked. A job is advised that
/// has stated something in [checkpoint], or has reported a checkpoint. The daemon that has rank 0
/// of the job's largest communicator decides: all hosts know which one that is without asking, and
/// it hears all events of the job. If it is lost, so is that communicator. The one in which the
/// others go on has a rank 0 again, whose daemon has heard the same events. Thread: engine.
class CheckpointAdvisor final : public CommunicatorObserver {
 public:
  /// All of these outlive this object.
  struct Services {
    const JobCommunicators* by_job = nullptr;
    JobEvents* events = nullptr;
    const JobAdvisor* progress = nullptr;
    const PromiseBook* book = nullptr;
    RecordKeeper* keeper = nullptr;
    const TenantTable* tenants = nullptr;  ///< Its policy bounds intervals.
    const Cluster* cluster = nullptr;      ///< nullptr where this host stands alone.
    EventLoop* loop = nullptr;
  };

  explicit CheckpointAdvisor(const Services& services);
  CheckpointAdvisor(const CheckpointAdvisor&) = delete;
  CheckpointAdvisor& operator=(const CheckpointAdvisor&) = delete;

  /// Goes on with what earlier daemons have seen.
  void Restore();

  /// Takes in a checkpoint that is safe, and tells the job's hosts by checkpoint.saved. Who has
  /// told that event need not call this. Errors: kInvalidUsage if the job has no communicator here,
  /// or its tenant has too many jobs that save; kInProgress if the tenant reports too often.
  Status OnSaved(Job& job, const SavedReport& report);
  /// Advises the job to save now, since its tenant or an operator wants it. Returns what the job
  /// was told. Errors: kInvalidUsage likewise; kInProgress if that is asked too often.
  Result<SaveMoment> RequestSave(Job& job, bool by_operator);
  /// Returns what is known of when the job should save.
  CheckpointAdvice AdviceFor(const Job& job) const;

  /// Hears of each event of a job here (JobEvents::SetListener). Tells nothing itself.
  void OnEvent(Job& job, const Event& event, bool began_here);
  /// Something else was granted to a job.
  void OnTerms(Job& job);
  /// Another daemon is lost.
  void OnPeerLost();

  // CommunicatorObserver.

  void OnFormed(const Communicator& communicator, int hosts) override;
  void OnLinksChanged(const Communicator& communicator, bool degraded, double times) override;
  void OnEnded(const Communicator& communicator) override;

  /// Most jobs that are remembered, of all tenants and of one; beyond that the one goes that was
  /// not here for the longest time.
  static constexpr size_t kMostJobs = 2048;
  static constexpr size_t kMostJobsOfTenant = 64;

 private:
  /// Time between looks at jobs that are advised. Windows are seconds long.
  static constexpr std::chrono::milliseconds kLookEvery{500};

  struct Entry {
    Job* job = nullptr;  ///< nullptr: it is not here.
    JobSaves saves = {};
    double ranks = 1;                         ///< Of its largest communicator.
    std::optional<double> came_seconds = {};  ///< SaveView::came_seconds.
    double watched_seconds = 0;               ///< Until then, by the monotonic clock.
    double left_seconds = 0;                  ///< Since when it is not here, likewise.
  };
  using Key = std::pair<std::string, std::string>;  ///< The tenant's name, and JobIdentity::text.

  static Key KeyOf(const Job& job);
  static bool Asks(const Job& job, const Entry* entry);
  Entry* Find(const Job& job);
  const Entry* Find(const Job& job) const;
  Entry* Of(Job& job);
  bool MakeRoom(const std::string& tenant);
  bool Decides(const Job& job) const;
  JobUnits UnitsOf(const Job& job) const;
  bool IsIdle(const Job& job) const;
  SeenByCause SeenOf(const Entry& entry) const;
  CheckpointAdvice Outlook(const Job& job, const Entry* known) const;
  void AddSpread(const Job& job, const Entry* known, CheckpointAdvice* advice) const;
  SaveInterval IntervalFor(const Job& job, const CheckpointAdvice& advice, double hazard) const;
  SaveView ViewOf(const Job& job, const Entry& entry, const CheckpointAdvice& advice,
                  const std::vector<SaveNotice>& notices) const;
  void LookSoon();
  void Look();
  void LookAt(Entry& entry, double now_seconds);
  void Advise(Entry& entry);
  void Keep(const Key& key, const Entry& entry);
  void WatchHosts();
  void WatchJob(Entry& entry) const;

  const Services services_;
  std::map<Key, Entry> entries_;
  ProviderHazard provider_;
  double hazard_kept_seconds_ = 0;   ///< When `provider_` was kept last, by the monotonic clock.
  double ending_until_seconds_ = 0;  ///< Until then a lost daemon has ended in order, likewise.
  RateTable reports_;                ///< By tenant.
  RateTable requests_;               ///< By tenant, or for operators.
  LoopTimer next_look_;
  bool looks_soon_ = false;
  Lifetime lifetime_;
};

}  // namespace harmonaize::daemon
