#include "daemon/sizing/host_sight.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "daemon/adaptation/job_advisor.h"
#include "daemon/agents/agents.h"
#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/multihost/host_group.h"
#include "daemon/tenant/tenant.h"
#include "src/base/random.h"
#include "src/base/wall_clock.h"

namespace harmonaize::daemon {
namespace {

/// Longest time, in seconds, over which the load of links is a mean: looks are seconds apart.
constexpr double kLongestLoadSeconds = 60;

/// Most jobs of one tenant that are told of: it may have as many agents, and with more it would
/// leave no room in the message for those of others.
constexpr int kMostJobsOfTenant = 64;

/// Returns how people name this host.
std::string HostName(const Cluster* cluster) {
  if (cluster == nullptr) return "this host";
  return cluster->host_name().empty() ? cluster->address() : cluster->host_name();
}

OfferStanding StandingOf(const Job& job, const std::map<const Job*, OfferStanding>& standings) {
  const auto found = standings.find(&job);
  return found == standings.end() ? OfferStanding{} : found->second;
}

int ToRanks(int64_t count) {
  return static_cast<int>(std::clamp<int64_t>(count, 1, kMostSizedRanks));
}

}  // namespace

HostSight::HostSight(const SightServices& services) : services_(services), salt_(RandomNumber()) {}

// All hosts of a communicator that spans some know it by one key.
uint64_t HostSight::GroupOf(const Job& job) const {
  const Communicator* const largest = services_.by_job->Largest(job);
  if (largest == nullptr) return 0;
  const HostGroup* const hosts = largest->host_group();
  return hosts != nullptr ? hosts->roster().key : std::max<uint64_t>(1, salt_ ^ largest->id());
}

/// Returns whether the job may be offered ranks: it has said between which sizes it may change, and
/// its agent here, if it has no ranks here, has shown by a ticket that it is of the job.
bool HostSight::TakesPart(const Job& job) const {
  const ElasticTerms& terms = job.terms->elastic();
  const bool wants = terms.was_stated && terms.offers != ElasticTerms::Offers::kDecline;
  return wants && (services_.by_job->HasRanksHere(&job) || services_.agents->own().IsAttached(job));
}

HostSizesMessage HostSight::Look(double now_seconds) {
  HostSizesMessage sizes{.host = HostName(services_.cluster),
                         .places = ToRanks(services_.places),
                         .link_load = LinkLoad(now_seconds)};
  const std::map<const Job*, OfferStanding> standings = services_.offers->Standings();
  Histories histories;
  std::map<uint32_t, int> told;  // jobs by TenantIdentity::across_hosts
  int64_t taken = 0;
  for (const auto& [key, job] : services_.jobs->all()) {
    const OfferStanding standing = StandingOf(*job, standings);
    taken += Taken(*job, standing);
    sizes.coming += standing.leaving_ranks;
    if (sizes.jobs.size() >= kMostJobsInSizes || !TakesPart(*job)) continue;
    if (++told[job->tenant->identity.across_hosts] > kMostJobsOfTenant) continue;
    SpeedHistory& history = histories.emplace(key, std::move(histories_[key])).first->second;
    JobSizeView view = ViewOf(*job, standing, &history);
    if (IsSound(view)) sizes.jobs.push_back(std::move(view));
  }
  histories_ = std::move(histories);
  sizes.free = static_cast<int>(std::max<int64_t>(0, sizes.places - taken));
  return sizes;
}

int64_t HostSight::Taken(const Job& job, const OfferStanding& standing) const {
  return static_cast<int64_t>(services_.by_job->RanksHere(job).size()) + standing.promised_places;
}

int32_t HostSight::FreePlaces(const std::map<const Job*, OfferStanding>& standings) const {
  int64_t taken = 0;
  for (const auto& [key, job] : services_.jobs->all()) {
    taken += Taken(*job, StandingOf(*job, standings));
  }
  return static_cast<int32_t>(std::max<int64_t>(0, ToRanks(services_.places) - taken));
}

JobSizeView HostSight::ViewOf(const Job& job, const OfferStanding& standing,
                              SpeedHistory* history) const {
  const ElasticTerms& terms = job.terms->elastic();
  const Communicator* const largest = services_.by_job->Largest(job);
  JobSizeView view{.job = EncodeJob(job.id),
                   .user = job.tenant->identity.across_hosts,
                   .group = GroupOf(job),
                   .label = job.label(),
                   .tenant = job.tenant->name(),
                   .ranks_here = static_cast<int>(services_.by_job->RanksHere(job).size()),
                   .ranks = largest == nullptr ? 0 : largest->ranks(),
                   .room = services_.agents->own().PlacesOf(job).value_or(0),
                   .least = ToRanks(terms.least_ranks),
                   .most = ToRanks(std::max(terms.most_ranks, terms.least_ranks)),
                   .step = ToRanks(terms.step),
                   .notice_seconds = terms.notice_seconds,
                   .priority = job.terms->whole().sharing.priority,
                   .goal = job.terms->goal(),
                   .deadline_seconds = job.terms->adapt().deadline.value_or(0),
                   .is_asked = standing.is_asked,
                   .quiet_seconds = std::max(0.0, standing.quiet_until_seconds - UnixSeconds())};
  AddProgress(job, history, &view);
  return view;
}

void HostSight::AddProgress(const Job& job, SpeedHistory* history, JobSizeView* view) const {
  // What was seen is told also by a host that the job's ranks have left.
  view->seen = history->seen();
  const JobProgress* const progress = services_.advisor->Find(job);
  if (progress == nullptr || !progress->last().has_value()) return;
  const ProgressReport& last = *progress->last();
  if (const std::optional<StepTimes> times = progress->RecentTimes()) {
    history->Take({.ranks = view->ranks,
                   .samples = progress->SamplesOfStep().value_or(1),
                   .step_seconds = times->step_seconds,
                   .exchange_seconds = times->exchange_seconds});
  }
  view->seen = history->seen();
  view->samples_left = std::max(0.0, last.samples_in_all.value_or(0) - last.samples.value_or(0));
  view->gradient_noise_scale = std::max(0.0, last.gradient_noise_scale.value_or(0));
  view->change_seconds = progress->PauseSeconds().value_or(0);
}

/// Returns the part of the time in which links are busy with what jobs send that are not elastic.
/// What elastic jobs send moves with their ranks.
double HostSight::LinkLoad(double now_seconds) {
  if (services_.cluster == nullptr) return 0;
  std::vector<transport::PeerId> peers;
  for (const auto& [peer, info] : services_.cluster->linked()) peers.push_back(peer);
  double load = 0;
  for (const RailFlow& flow : meter_.Look(services_.cluster->transport().Traffic(peers),
                                          now_seconds, kLongestLoadSeconds)) {
    double all = 0;
    double elastic = 0;
    for (const JobRate& rate : flow.jobs) {
      all += rate.bytes_per_second;
      const Communicator* const communicator =
          services_.communicators->FindByKey(rate.communicator);
      if (communicator != nullptr && TakesPart(*communicator->job())) {
        elastic += rate.bytes_per_second;
      }
    }
    if (all > 0) load += flow.busy * (all - elastic) / all;
  }
  return std::clamp(load, 0.0, 1.0);
}

Job* HostSight::Find(const SizeOfferMessage& offer) const {
  const JobIdentity id = DecodeJob(offer.job);
  for (const auto& [key, job] : services_.jobs->all()) {
    if (key.second != id || job->tenant->identity.across_hosts != offer.user) continue;
    const uint64_t group = GroupOf(*job);
    if (TakesPart(*job) && (group == offer.group || group == 0)) return job.get();
  }
  return nullptr;
}

}  // namespace harmonaize::daemon
