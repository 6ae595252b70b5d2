#include "daemon/checkpoint_advice/checkpoint_advisor.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "daemon/adaptation/job_advisor.h"
#include "daemon/checkpoint_advice/advice_events.h"
#include "daemon/checkpoint_advice/notice_reading.h"
#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/job_events/job_events.h"
#include "daemon/jobs/job_table.h"
#include "daemon/multihost/host_group.h"
#include "daemon/promises/promise_book.h"
#include "daemon/promises/record_keeper.h"
#include "daemon/runtime/event_loop.h"
#include "daemon/runtime/guarded.h"
#include "daemon/tenant/tenant.h"
#include "daemon/tenant/tenant_table.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

/// Reports that a tenant makes: those of all ranks of a job at once, and then as many as a job with
/// short steps may save.
constexpr RateLimit kReportsOfTenant{.per_second = 4, .burst = 256};
/// Requests to save that a tenant makes, or all operators together: each makes a whole job stop for
/// a while.
constexpr RateLimit kRequestsOfAsker{.per_second = 0.2, .burst = 16};
/// Time, in seconds, between writes of what was seen of hosts.
constexpr double kKeepHazardSeconds = 600;
/// Time, in seconds, within which a daemon is gone that has told that it ends.
constexpr double kEndsWithinSeconds = 30;
/// A network is idle once it was so for this many times the longest pause of late, and for so many
/// seconds: pauses between steps are none of these.
constexpr double kIdleTimes = 2;
constexpr double kIdleSeconds = 1;
/// Length of the window of a checkpoint by request, in seconds.
constexpr double kRequestWindowSeconds = 60;

double MonotonicNow() {
  return static_cast<double>(MonotonicNanoseconds()) * 1e-9;
}

SaveImportance ImportanceOf(const CheckpointTerms& terms) {
  switch (terms.importance) {
    case CheckpointTerms::Importance::kLow: return SaveImportance::kLow;
    case CheckpointTerms::Importance::kNormal: return SaveImportance::kNormal;
    case CheckpointTerms::Importance::kHigh: return SaveImportance::kHigh;
  }
  return SaveImportance::kNormal;
}

}  // namespace

CheckpointAdvisor::CheckpointAdvisor(const Services& services)
    : services_(services),
      reports_(kReportsOfTenant),
      requests_(kRequestsOfAsker),
      next_look_(services.loop) {}

// ---------------------------------------------------------------------------------------------
// What is remembered

// The names of tenants are the same after a restart, where the numbers of containers are not.
CheckpointAdvisor::Key CheckpointAdvisor::KeyOf(const Job& job) {
  return {job.tenant->identity.name, job.id.text()};
}

CheckpointAdvisor::Entry* CheckpointAdvisor::Find(const Job& job) {
  const auto found = entries_.find(KeyOf(job));
  return found == entries_.end() ? nullptr : &found->second;
}

const CheckpointAdvisor::Entry* CheckpointAdvisor::Find(const Job& job) const {
  const auto found = entries_.find(KeyOf(job));
  return found == entries_.end() ? nullptr : &found->second;
}

// Returns the job's entry, which the first call makes; nullptr if there is no room.
CheckpointAdvisor::Entry* CheckpointAdvisor::Of(Job& job) {
  Entry* entry = Find(job);
  if (entry == nullptr) {
    if (!MakeRoom(job.tenant->identity.name)) return nullptr;
    entry = &entries_[KeyOf(job)];
  } else if (entry->job == nullptr) {
    entry->came_seconds = UnixSeconds();
  }
  if (entry->job == nullptr) entry->watched_seconds = MonotonicNow();
  entry->job = &job;
  return entry;
}

// Lets the job go that was not here for the longest time: one of the tenant's, or of anybody's
// where there are too many in all. Returns whether there is room.
bool CheckpointAdvisor::MakeRoom(const std::string& tenant) {
  const auto first = entries_.lower_bound({tenant, ""});
  auto end = first;
  size_t of_tenant = 0;
  for (; end != entries_.end() && end->first.first == tenant; ++end) ++of_tenant;
  const bool is_tenants_fault = of_tenant >= kMostJobsOfTenant;
  if (!is_tenants_fault && entries_.size() < kMostJobs) return true;
  const auto from = is_tenants_fault ? first : entries_.begin();
  const auto to = is_tenants_fault ? end : entries_.end();
  auto oldest = to;
  for (auto one = from; one != to; ++one) {
    if (one->second.job != nullptr) continue;
    if (oldest == to || one->second.left_seconds < oldest->second.left_seconds) oldest = one;
  }
  if (oldest == to) return false;
  services_.keeper->Remove(kJobSavesRecord, JobSavesKey(oldest->first.first, oldest->first.second));
  entries_.erase(oldest);
  return true;
}

void CheckpointAdvisor::Keep(const Key& key, const Entry& entry) {
  services_.keeper->Put(RecordOf(key.first, key.second, entry.saves));
}

void CheckpointAdvisor::Restore() {
  for (const Record& record : services_.keeper->found()) {
    if (record.kind == ProviderHazard::kRecord) {
      if (!provider_.TakeKept(record)) services_.keeper->Remove(record.kind, record.key);
    }
    if (record.kind != kJobSavesRecord) continue;
    std::optional<KeptSaves> kept = KeptSavesIn(record);
    if (!kept.has_value() || !MakeRoom(kept->tenant)) {
      Log(LogLevel::kWarning, kLogInit,
          "a kept record of checkpoints is not understood, and is removed");
      services_.keeper->Remove(record.kind, record.key);
      continue;
    }
    entries_[{kept->tenant, kept->job}].saves = std::move(kept->saves);
  }
}

// ---------------------------------------------------------------------------------------------
// What jobs and events tell

bool CheckpointAdvisor::Asks(const Job& job, const Entry* entry) {
  return job.terms->checkpoint().was_stated || (entry != nullptr && entry->saves.has_reported());
}

Status CheckpointAdvisor::OnSaved(Job& job, const SavedReport& report) {
  if (!services_.by_job->Has(&job)) {
    return InvalidUsage(
        "job '{}' has no communicator on this host; checkpoints are told of jobs that run",
        job.label());
  }
  const std::string tenant = std::to_string(job.tenant->identity.number);
  if (reports_.Take(tenant, std::chrono::steady_clock::now()).has_value()) {
    return Status(Code::kInProgress, "checkpoints are reported too often; wait a second");
  }
  Entry* const entry = Of(job);
  if (entry == nullptr) {
    return InvalidUsage("{} jobs of yours that save are here, which is as many as are advised",
                        kMostJobsOfTenant);
  }
  if (!report.failure.empty()) {
    entry->saves.TakeLost(report.step, report.place);
    Keep(KeyOf(job), *entry);
    if (services_.events->MayTellMore(job.tenant->identity)) {
      services_.events->Tell(job, FailureNewsOf(report));
    }
    return Status::Ok();
  }
  // The event that tells of it is heard here, too, and is no news then.
  if (!entry->saves.Take(report, UnixSeconds())) return Status::Ok();
  Keep(KeyOf(job), *entry);
  if (services_.events->MayTellMore(job.tenant->identity)) {
    services_.events->Tell(job, NewsOf(report));
  }
  LookSoon();
  return Status::Ok();
}

void CheckpointAdvisor::OnEvent(Job& job, const Event& event, bool began_here) {
  if (!SaysAnything(event.type)) return;
  const double now = UnixSeconds();
  const SaveNews news = NewsIn(event, now);
  const bool ends_elsewhere = !began_here && event.type == EventType::kDaemonRestarting;
  if (ends_elsewhere && !news.notice.has_value()) {
    ending_until_seconds_ = MonotonicNow() + kEndsWithinSeconds;
  }
  const bool concerns = news.notice.has_value() || !news.ended.empty() || news.saved.has_value() ||
                        news.lost.has_value() || news.is_failure || news.advised.has_value();
  // A job that has an agent alone here is advised where its ranks are.
  if (!concerns || !services_.by_job->Has(&job)) return;
  Entry* const entry = Of(job);
  if (entry == nullptr) return;
  JobSaves& saves = entry->saves;
  if (news.notice.has_value()) saves.TakeNotice(*news.notice);
  for (const std::string& id : news.ended) saves.EndNotice(id);
  if (news.lost.has_value()) saves.TakeLost(news.lost->step, news.lost->place);
  bool is_kept = news.saved.has_value() && saves.Take(*news.saved, now);
  if (news.is_failure) is_kept = saves.TakeFailure(now) || is_kept;
  // Who decides next knows what was advised.
  if (!began_here && news.advised.has_value()) saves.NoteToldElsewhere(*news.advised, now);
  if (is_kept) Keep(KeyOf(job), *entry);
  if (Asks(job, entry)) LookSoon();
}

void CheckpointAdvisor::OnTerms(Job& job) {
  if (!job.terms->checkpoint().was_stated || !services_.by_job->Has(&job)) return;
  if (Of(job) != nullptr) LookSoon();
}

void CheckpointAdvisor::OnPeerLost() {
  WatchHosts();
  if (MonotonicNow() >= ending_until_seconds_) provider_.NoteHostLost();
  services_.keeper->Put(provider_.Kept());
}

void CheckpointAdvisor::OnFormed(const Communicator& communicator, int /*hosts*/) {
  Job& job = *communicator.job();
  Entry* const known = Find(job);
  // A job of the same name that comes again goes on with what was learnt of it.
  if (known == nullptr && !job.terms->checkpoint().was_stated) return;
  Entry* const entry = Of(job);
  if (entry == nullptr) return;
  WatchJob(*entry);
  if (Asks(job, entry)) LookSoon();
}

void CheckpointAdvisor::OnLinksChanged(const Communicator& /*communicator*/, bool degraded,
                                       double /*times*/) {
  WatchHosts();
  if (degraded) provider_.NoteLinkCut(MonotonicNow());
}

void CheckpointAdvisor::OnEnded(const Communicator& communicator) {
  Job* const job = communicator.job();
  if (services_.by_job->Has(job)) return;
  Entry* const entry = Find(*job);
  if (entry == nullptr || entry->job == nullptr) return;
  WatchJob(*entry);
  entry->job = nullptr;
  entry->left_seconds = MonotonicNow();
  // Another run hears anew of what is announced then.
  for (const SaveNotice& notice : entry->saves.Notices()) entry->saves.EndNotice(notice.id);
  Keep(KeyOf(*job), *entry);
}

// ---------------------------------------------------------------------------------------------
// What is known

bool CheckpointAdvisor::Decides(const Job& job) const {
  const Communicator* const largest = services_.by_job->Largest(job);
  return largest != nullptr && !largest->IsRemote(0);
}

JobUnits CheckpointAdvisor::UnitsOf(const Job& job) const {
  const Communicator* const largest = services_.by_job->Largest(job);
  if (largest == nullptr) return {};
  const HostGroup* const hosts = largest->host_group();
  return {.ranks = static_cast<double>(largest->ranks()),
          .hosts = hosts == nullptr ? 1.0 : static_cast<double>(hosts->roster().hosts())};
}

bool CheckpointAdvisor::IsIdle(const Job& job) const {
  const Communicator* const largest = services_.by_job->Largest(job);
  if (largest == nullptr) return false;
  const GapEstimate& gap = largest->collective_gap();
  if (gap.gap_ns() == 0) return false;
  const double since = MonotonicNow() - static_cast<double>(gap.last_ns()) * 1e-9;
  return since > kIdleTimes * static_cast<double>(gap.gap_ns()) * 1e-9 && since > kIdleSeconds;
}

SaveInterval CheckpointAdvisor::IntervalFor(const Job& job, const CheckpointAdvice& advice,
                                            double hazard) const {
  const CheckpointTerms& terms = job.terms->checkpoint();
  const TenantPolicy& policy = services_.tenants->policy().For(job.tenant->identity.across_hosts);
  return IntervalOf({.stall_seconds = advice.usual.stall_seconds,
                     .safe_seconds = advice.usual.safe_seconds.p50,
                     .hazard_per_second = hazard + advice.notice_hazard,
                     .weight = WeightOf(ImportanceOf(terms)),
                     .least_seconds = policy.least_checkpoint_interval_seconds,
                     .interval_seconds = terms.interval_seconds,
                     .most_lost_seconds = terms.most_lost_seconds,
                     .overhead_cap = terms.overhead_cap});
}

SaveView CheckpointAdvisor::ViewOf(const Job& job, const Entry& entry,
                                   const CheckpointAdvice& advice,
                                   const std::vector<SaveNotice>& notices) const {
  const JobProgress* const progress = services_.progress->Find(job);
  return {.now_seconds = advice.now_seconds,
          .began_seconds = job.began_seconds,
          .came_seconds = entry.came_seconds,
          .saved_seconds = entry.saves.saved_seconds(),
          .lasting_seconds = entry.saves.lasting_seconds(),
          .advised_seconds = entry.saves.advised_seconds(),
          .interval_seconds = advice.interval.seconds,
          .hazard_per_second = advice.hazard.mean + advice.notice_hazard,
          .weight = WeightOf(ImportanceOf(job.terms->checkpoint())),
          .step_seconds = progress == nullptr ? 0 : progress->StepSeconds().value_or(0),
          .usual = advice.usual,
          .lasting = advice.lasting,
          .is_idle = IsIdle(job),
          .notices = notices};
}

SeenByCause CheckpointAdvisor::SeenOf(const Entry& entry) const {
  SeenByCause seen = provider_.Seen(*services_.book);
  seen[static_cast<size_t>(FailureCause::kRank)] = entry.saves.ranks();
  return seen;
}

// All but the spread of the hazard, which takes too long for each look at each job.
CheckpointAdvice CheckpointAdvisor::Outlook(const Job& job, const Entry* known) const {
  static const Entry kNothing;
  const Entry& entry = known == nullptr ? kNothing : *known;
  const std::optional<double> stated = job.terms->checkpoint().stall_seconds;
  CheckpointAdvice advice{.now_seconds = UnixSeconds(),
                          .asks = Asks(job, known),
                          .units = UnitsOf(job),
                          .rank_failures = entry.saves.ranks().events,
                          .usual = entry.saves.times().Usual(stated),
                          .lasting = entry.saves.times().Lasting(stated),
                          .last = entry.saves.last(),
                          .saved_seconds = entry.saves.saved_seconds()};
  advice.hazard.mean = MeanHazardOf(SeenOf(entry), advice.units);
  const std::vector<SaveNotice> notices = entry.saves.Notices();
  advice.notice_hazard = HazardOfNotices(notices);
  advice.interval = IntervalFor(job, advice, advice.hazard.mean);
  advice.moments = MomentsOf(ViewOf(job, entry, advice, notices));
  return advice;
}

void CheckpointAdvisor::AddSpread(const Job& job, const Entry* known,
                                  CheckpointAdvice* advice) const {
  advice->hazard = HazardOf(SeenOf(known == nullptr ? Entry() : *known), advice->units);
  const Spread& spread = advice->hazard.spread;
  advice->optimum_seconds = {IntervalFor(job, *advice, spread.p90).optimum_seconds,
                             IntervalFor(job, *advice, spread.p50).optimum_seconds,
                             IntervalFor(job, *advice, spread.p10).optimum_seconds};
}

CheckpointAdvice CheckpointAdvisor::AdviceFor(const Job& job) const {
  const Entry* const known = Find(job);
  CheckpointAdvice advice = Outlook(job, known);
  AddSpread(job, known, &advice);
  return advice;
}

// ---------------------------------------------------------------------------------------------
// Advising

Result<SaveMoment> CheckpointAdvisor::RequestSave(Job& job, bool by_operator) {
  if (!services_.by_job->Has(&job)) {
    return InvalidUsage("job '{}' has no communicator on this host, so nothing of it can be saved",
                        job.label());
  }
  const std::string asker = by_operator ? "operators" : std::to_string(job.tenant->identity.number);
  if (requests_.Take(asker, std::chrono::steady_clock::now()).has_value()) {
    return Status(Code::kInProgress, "checkpoints are asked for too often; wait some seconds");
  }
  const CheckpointAdvice advice = Outlook(job, Find(job));
  const double now = advice.now_seconds;
  const SaveMoment moment{.why = SaveReason::kRequest,
                          .not_before_seconds = now,
                          .deadline_seconds = now + kRequestWindowSeconds,
                          .confidence = 1,
                          .takes = advice.usual.safe_seconds};
  services_.events->Tell(job, NewsOf(moment, advice.interval, now));
  return moment;
}

// This host is not among them: one that is lost counts nothing any more.
void CheckpointAdvisor::WatchHosts() {
  const size_t peers = services_.cluster == nullptr ? 0 : services_.cluster->peers();
  provider_.Watch(peers, MonotonicNow());
}

void CheckpointAdvisor::WatchJob(Entry& entry) const {
  const double now = MonotonicNow();
  // Of a job that ends nothing is left that tells its ranks.
  if (services_.by_job->Has(entry.job)) entry.ranks = UnitsOf(*entry.job).ranks;
  entry.saves.Watch(entry.ranks, now - entry.watched_seconds);
  entry.watched_seconds = now;
}

// Advice follows soon, and apart from what has led to it: whoever tells an event is not told
// another one meanwhile.
void CheckpointAdvisor::LookSoon() {
  if (looks_soon_) return;
  looks_soon_ = true;
  services_.loop->Post(lifetime_.Guard([this] {
    looks_soon_ = false;
    Look();
  }));
}

void CheckpointAdvisor::Look() {
  WatchHosts();
  const double now = UnixSeconds();
  bool is_any = false;
  for (auto& one : entries_) {
    Entry& entry = one.second;
    if (entry.job == nullptr) continue;
    is_any = is_any || Asks(*entry.job, &entry);
    GuardedAndLogged("advice about checkpoints", [&] { LookAt(entry, now); });
  }
  const double monotonic = MonotonicNow();
  if (monotonic - hazard_kept_seconds_ > kKeepHazardSeconds) {
    hazard_kept_seconds_ = monotonic;
    services_.keeper->Put(provider_.Kept());
  }
  if (!is_any) return next_look_.Stop();
  const Status status = next_look_.Start(kLookEvery, [this] { Look(); });
  if (!status.ok()) {
    Log(LogLevel::kWarning, kLogInit, "checkpoints are not advised: {}", status.message());
  }
}

void CheckpointAdvisor::LookAt(Entry& entry, double now_seconds) {
  WatchJob(entry);
  entry.saves.ForgetPast(now_seconds);
  if (Asks(*entry.job, &entry) && Decides(*entry.job)) Advise(entry);
}

void CheckpointAdvisor::Advise(Entry& entry) {
  Job& job = *entry.job;
  const CheckpointAdvice advice = Outlook(job, &entry);
  for (const SaveMoment& moment : advice.moments) {
    const bool is_regular = moment.why == SaveReason::kInterval;
    const bool is_due = !is_regular || moment.not_before_seconds <= advice.now_seconds;
    if (!is_due || (!is_regular && !entry.saves.IsNews(moment, advice.now_seconds))) continue;
    if (!services_.events->MayTellMore(job.tenant->identity)) return;
    entry.saves.NoteTold(moment, advice.now_seconds);
    services_.events->Tell(job, NewsOf(moment, advice.interval, advice.now_seconds));
  }
}

}  // namespace harmonaize::daemon
