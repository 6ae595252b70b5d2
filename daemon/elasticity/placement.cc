#include "daemon/elasticity/placement.h"

#include <algorithm>
#include <limits>
#include <map>

namespace harmonaize::daemon {
namespace {

/// Most that a link counts as used, as a part: a host whose link is full would otherwise have no
/// exchange end at all.
constexpr double kMostLoad = 0.9;

}  // namespace

Placement::Placement(const ElasticWorld& world) : world_(&world) {
  for (const ElasticHost& host : world.hosts) {
    free_.push_back(host.free_places);
    all_free_ += host.free_places;
  }
  for (const ElasticJob& job : world.jobs) {
    ranks_.insert(ranks_.end(), job.ranks.begin(), job.ranks.end());
    room_.insert(room_.end(), job.room.begin(), job.room.end());
    if (job.room.empty()) room_.resize(ranks_.size(), std::numeric_limits<int32_t>::max());
    sizes_.push_back(job.size());
  }
  std::map<uint32_t, size_t> places;
  for (size_t job = 0; job < world.jobs.size(); ++job) {
    tenants_.push_back(places.emplace(world.jobs[job].tenant, places.size()).first->second);
    held_.resize(places.size());
    held_[tenants_[job]] += sizes_[job];
  }
  kept_ = held_;
  first_stretch_.assign(world.jobs.size(), 1);
  for (size_t job = 0; job < world.jobs.size(); ++job) first_stretch_[job] = StretchWith(job, 0, 0);
}

std::optional<size_t> Placement::HostToGrow(size_t job, int32_t ranks) const {
  std::optional<size_t> best;
  const auto is_better = [&](size_t host) {
    const bool has_ranks = RanksAt(job, host) > 0;
    if (has_ranks != (RanksAt(job, *best) > 0)) return has_ranks;
    return world_->hosts[host].link_load < world_->hosts[*best].link_load;
  };
  for (size_t host = 0; host < free_.size(); ++host) {
    const int32_t places = std::min(free_[host], room(job, host));
    if (places >= ranks && (!best.has_value() || is_better(host))) best = host;
  }
  return best;
}

std::optional<size_t> Placement::HostToShrink(size_t job, int32_t ranks) const {
  std::optional<size_t> best;
  const auto is_better = [&](size_t host) {
    if (RanksAt(job, host) != RanksAt(job, *best)) return RanksAt(job, host) < RanksAt(job, *best);
    return world_->hosts[host].link_load > world_->hosts[*best].link_load;
  };
  for (size_t host = 0; host < free_.size(); ++host) {
    if (RanksAt(job, host) >= ranks && (!best.has_value() || is_better(host))) best = host;
  }
  return best;
}

void Placement::Grow(size_t job, size_t host, int32_t ranks) {
  ranks_[job * free_.size() + host] += ranks;
  room_[job * free_.size() + host] -= ranks;
  sizes_[job] += ranks;
  held_[tenants_[job]] += ranks;
  free_[host] -= ranks;
  all_free_ -= ranks;
}

void Placement::Shrink(size_t job, size_t host, int32_t ranks) {
  ranks_[job * free_.size() + host] -= ranks;
  sizes_[job] -= ranks;
  held_[tenants_[job]] -= ranks;
  kept_[tenants_[job]] -= ranks;
}

double Placement::StretchWith(size_t job, size_t host, int32_t ranks) const {
  double load = 0;
  int hosts = 0;
  for (size_t i = 0; i < free_.size(); ++i) {
    const int32_t here = RanksAt(job, i) + (i == host ? ranks : 0);
    if (here <= 0) continue;
    ++hosts;
    load = std::max(load, world_->hosts[i].link_load);
  }
  // Ranks of one host need no link.
  return hosts > 1 ? 1 / (1 - std::min(load, kMostLoad)) : 1;
}

double Placement::SpeedWith(size_t job, size_t host, int32_t ranks) const {
  return world_->jobs[job].speed.Speed(sizes_[job] + ranks,
                                       StretchWith(job, host, ranks) / first_stretch_[job]);
}

double Placement::StepSecondsWith(size_t job, size_t host, int32_t ranks) const {
  return world_->jobs[job].speed.StepSeconds(sizes_[job] + ranks,
                                             StretchWith(job, host, ranks) / first_stretch_[job]);
}

}  // namespace harmonaize::daemon
