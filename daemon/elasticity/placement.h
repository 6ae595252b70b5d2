#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/elasticity/elastic_world.h"

namespace harmonaize::daemon {

/// Where the ranks of jobs are, or would be after changes that are thought about. Jobs and hosts
/// are named by their places in the world, which outlives this object.
class Placement {
 public:
  explicit Placement(const ElasticWorld& world);

  int32_t size(size_t job) const { return sizes_[job]; }
  /// Returns how many more ranks of a job there can be on a host, if it has the places.
  int32_t room(size_t job, size_t host) const { return room_[job * free_.size() + host]; }
  /// Returns the ranks of all jobs of the tenant whose job this is.
  int32_t HeldByTenantOf(size_t job) const { return held_[tenants_[job]]; }
  /// Returns how many ranks of that tenant's jobs stay, of those that they had at first: what they
  /// may grow by is not theirs yet.
  int32_t KeptByTenantOf(size_t job) const { return kept_[tenants_[job]]; }
  /// Returns the free places of all hosts.
  int32_t free_places() const { return all_free_; }

  /// Returns the host on which so many more ranks of the job are best: one that has ranks of it
  /// already, of these the one whose links are used least; nullopt if no host has the places and
  /// room for them.
  std::optional<size_t> HostToGrow(size_t job, int32_t ranks) const;
  /// Returns the host that so many ranks of the job leave best: the one with the fewest of them,
  /// since a host without any has no part in exchanges; nullopt if no host has as many.
  std::optional<size_t> HostToShrink(size_t job, int32_t ranks) const;

  /// Has ranks of a job come to a host, on its free places.
  void Grow(size_t job, size_t host, int32_t ranks);
  /// Has ranks of a job leave a host. Their places are not free before they have left.
  void Shrink(size_t job, size_t host, int32_t ranks);

  /// Returns the job's speed as it is placed, in samples a second.
  double Speed(size_t job) const { return SpeedWith(job, 0, 0); }
  /// Returns its speed with more ranks on a host, or fewer, which are negative.
  double SpeedWith(size_t job, size_t host, int32_t ranks) const;
  /// Returns how long its step takes then, in seconds.
  double StepSecondsWith(size_t job, size_t host, int32_t ranks) const;

 private:
  double StretchWith(size_t job, size_t host, int32_t ranks) const;

  int32_t RanksAt(size_t job, size_t host) const { return ranks_[job * free_.size() + host]; }

  const ElasticWorld* world_;          // not owned
  std::vector<int32_t> ranks_;         // by job and host
  std::vector<int32_t> room_;          // by job and host: how many more there can be
  std::vector<int32_t> sizes_;         // by job
  std::vector<size_t> tenants_;        // by job: place of its tenant in held_
  std::vector<int32_t> kept_;          // by tenant
  std::vector<int32_t> held_;          // by tenant
  std::vector<double> first_stretch_;  // by job: that of the world
  std::vector<int32_t> free_;          // by host
  int32_t all_free_ = 0;
};

}  // namespace harmonaize::daemon
