#include "daemon/sizing/sizes_book.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "daemon/elasticity/tenant_shares.h"
#include "daemon/sizing/speed_history.h"
#include "src/base/clean_text.h"

namespace harmonaize::daemon {
namespace {

/// Longest name that another daemon is believed, in bytes: of any message between daemons.
constexpr size_t kMostNameBytes = 255;
/// Most jobs that are looked at, of all tenants and of one: a look takes time with each of them on
/// each host.
constexpr size_t kMostJobs = 4096;
constexpr size_t kMostJobsOfUser = 256;
/// Longest notice, in seconds, that a job may need which is asked for ranks.
constexpr double kMostNoticeSeconds = 3600;
/// Pause of a change, in seconds, of a job that has not changed yet.
constexpr double kUnknownChangeSeconds = 1;

std::vector<SpeedSample> SamplesOf(const std::vector<SpeedView>& seen) {
  std::vector<SpeedSample> samples;
  for (const SpeedView& one : seen) {
    samples.push_back({.ranks = one.ranks,
                       .samples = one.samples,
                       .step_seconds = one.step_seconds,
                       .exchange_seconds = one.exchange_seconds});
  }
  return samples;
}

/// Returns the model of a job of which nothing is known. It loses by fewer ranks as much as any
/// job can, so that nothing is taken from it where another one's loss is known to be less.
SpeedModel UnknownSpeed(int32_t ranks) {
  const SpeedSample sample{.ranks = ranks, .samples = 1, .step_seconds = 1};
  return *SpeedModel::Fit(std::span(&sample, 1));
}

ElasticGoal GoalOf(JobGoal goal) {
  switch (goal) {
    case JobGoal::kCheapest: return ElasticGoal::kCheapest;
    case JobGoal::kDeadline: return ElasticGoal::kDeadline;
    case JobGoal::kFastest: break;
  }
  return ElasticGoal::kFastest;
}

/// Returns the number by which the policy remembers a job, whatever its size is.
uint64_t NumberOf(const SizedJob& job) {
  return job.id.number() ^ (uint64_t{job.user} << 32);
}

/// Returns the view of those that knows most of the job's steps. Its ranks report at one host.
const JobSizeView& BestInformed(const std::vector<std::pair<size_t, const JobSizeView*>>& views) {
  return *std::max_element(views.begin(), views.end(), [](const auto& a, const auto& b) {
            return a.second->seen.size() < b.second->seen.size();
          })->second;
}

/// Returns what the steps took with each number of ranks, the newest last: what hosts know that the
/// job's ranks have left is older than what the best informed one does.
std::vector<SpeedView> SeenOf(const std::vector<std::pair<size_t, const JobSizeView*>>& views,
                              const JobSizeView& informed) {
  SpeedHistory history;
  for (const auto& [host, view] : views) {
    for (const SpeedView& one : view->seen) history.Take(one);
  }
  for (const SpeedView& one : informed.seen) history.Take(one);
  return history.seen();
}

/// Sets the speed of a job, as far as it is known. One of which nothing is known may shrink for
/// jobs that wait, and does not grow.
void SetSpeed(const std::vector<SpeedView>& seen, double gradient_noise_scale, int32_t size,
              SizedJob* job, ElasticJob* elastic) {
  const std::optional<SpeedModel> model = SpeedModel::Fit(SamplesOf(seen), gradient_noise_scale);
  job->knows_speed = model.has_value();
  elastic->speed = model.has_value() ? *model : UnknownSpeed(size);
  if (!model.has_value()) elastic->bounds.most = std::min(elastic->bounds.most, size);
}

/// Returns a job as its best informed host tells of it, without ranks.
ElasticJob DescribedBy(const JobSizeView& informed, const SizedJob& job, size_t hosts) {
  return {.id = NumberOf(job),
          .tenant = job.user,
          .ranks = std::vector<int32_t>(hosts),
          .room = std::vector<int32_t>(hosts),
          .bounds = {informed.least, informed.most, informed.step},
          .priority = informed.priority,
          .goal = GoalOf(informed.goal),
          .deadline_seconds = informed.deadline_seconds,
          .samples_left = informed.samples_left,
          .change_seconds =
              informed.change_seconds > 0 ? informed.change_seconds : kUnknownChangeSeconds};
}

/// Adds what a host tells of the job's ranks and agents there.
void AddHost(size_t host, const JobSizeView& view, double now_seconds, ElasticJob* elastic) {
  elastic->ranks[host] += view.ranks_here;
  elastic->room[host] += view.room;
  elastic->is_asked |= view.is_asked;
  elastic->quiet_until_seconds =
      std::max(elastic->quiet_until_seconds, now_seconds + view.quiet_seconds);
}

}  // namespace

void SizesBook::Take(transport::PeerId peer, HostSizesMessage sizes, double now_seconds) {
  reports_[peer] = {std::move(sizes), now_seconds};
}

SizingLook SizesBook::Look(double now_seconds, std::vector<WaitingJob> waiting,
                           const MostOfTenant& most_of_tenant) {
  std::erase_if(reports_, [&](const auto& one) {
    return now_seconds - one.second.at_seconds > counts_for_seconds_;
  });
  SizingLook look;
  look.world.now_seconds = now_seconds;
  look.world.waiting = std::move(waiting);
  std::map<JobKey, Views> views;
  for (const auto& [peer, report] : reports_) {
    const HostSizesMessage& sizes = report.sizes;
    const size_t host = look.hosts.size();
    look.hosts.push_back(
        {.peer = peer, .name = CleanText(sizes.host, kMostNameBytes), .places = sizes.places});
    look.world.hosts.push_back(
        {.free_places = sizes.free, .coming_places = sizes.coming, .link_load = sizes.link_load});
    for (const JobSizeView& view : sizes.jobs) {
      views[{{view.user, DecodeJob(view.job)}, view.group}].emplace_back(host, &view);
    }
  }
  AddJobs(views, &look);
  AddShares(most_of_tenant, &look);
  return look;
}

// Agents at hosts without ranks know no group. They count for the job of that name alone: where a
// user has several, as in containers, nobody knows which one is meant.
void SizesBook::AddJobs(const std::map<JobKey, Views>& views, SizingLook* look) {
  std::map<std::pair<uint32_t, JobIdentity>, int> groups;
  for (const auto& [key, of_job] : views) groups[key.first] += key.second != 0;
  std::map<uint32_t, size_t> of_user;
  for (const auto& [key, of_job] : views) {
    if (key.second == 0 || look->jobs.size() >= kMostJobs) continue;
    if (++of_user[key.first.first] > kMostJobsOfUser) continue;
    const bool is_alone = groups[key.first] == 1;
    const auto agents = views.find({key.first, 0});
    Views all = of_job;
    if (agents != views.end() && is_alone) {
      all.insert(all.begin(), agents->second.begin(), agents->second.end());
    }
    AddJob(key, BestInformed(of_job), all, is_alone, look);
  }
}

void SizesBook::AddJob(const JobKey& key, const JobSizeView& informed, const Views& views,
                       bool is_alone, SizingLook* look) {
  SizedJob job{.user = key.first.first,
               .id = key.first.second,
               .group = key.second,
               .label = CleanText(informed.label, kMostNameBytes),
               .tenant = CleanText(informed.tenant, kMostNameBytes),
               .notice_seconds = informed.notice_seconds,
               .most_ranks = informed.most};
  ElasticJob elastic = DescribedBy(informed, job, look->hosts.size());
  for (const auto& [host, view] : views) AddHost(host, *view, look->world.now_seconds, &elastic);
  const int32_t size = elastic.size();
  job.is_whole = is_alone && size == informed.ranks;
  elastic.is_asked |= !job.is_whole;
  // One that needs so much notice is of no use to who waits now.
  if (job.notice_seconds > kMostNoticeSeconds) {
    elastic.bounds.least = std::max(elastic.bounds.least, size);
    elastic.bounds.most = std::max(elastic.bounds.most, elastic.bounds.least);
  }
  SetSpeed(SeenOf(views, informed), informed.gradient_noise_scale, size, &job, &elastic);
  look->jobs.push_back(std::move(job));
  look->world.jobs.push_back(std::move(elastic));
}

void SizesBook::AddShares(const MostOfTenant& most_of_tenant, SizingLook* look) {
  std::vector<int64_t> by_host;
  for (const ElasticHost& host : look->world.hosts) by_host.push_back(host.free_places);
  std::map<uint32_t, int64_t> demands;
  for (const ElasticJob& job : look->world.jobs) {
    int64_t could_have = 0;
    for (size_t host = 0; host < by_host.size(); ++host) {
      by_host[host] += job.ranks[host];
      could_have += int64_t{job.ranks[host]} + job.room[host];
    }
    demands[job.tenant] += std::min<int64_t>(job.bounds.most, could_have);
  }
  // More ranks than places, as a process may have, make no more places.
  int64_t places = 0;
  for (size_t host = 0; host < by_host.size(); ++host) {
    places += std::min<int64_t>(by_host[host], look->hosts[host].places);
  }
  places = std::min<int64_t>(places, std::numeric_limits<int32_t>::max());
  std::vector<TenantDemand> bounded;
  for (const auto& [tenant, demand] : demands) {
    const int64_t most = most_of_tenant(tenant);
    const int64_t allowed = most == 0 ? demand : std::min(demand, most);
    bounded.push_back({tenant, static_cast<int32_t>(std::min(allowed, places))});
  }
  look->world.shares = ShareOut(static_cast<int32_t>(places), std::move(bounded));
}

}  // namespace harmonaize::daemon
