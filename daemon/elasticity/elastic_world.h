#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "daemon/elasticity/speed_model.h"

namespace harmonaize::daemon {

/// A host with places for ranks.
struct ElasticHost {
  int32_t free_places = 0;    ///< That no rank has, and that are promised to none.
  int32_t coming_places = 0;  ///< That ranks will leave by offers under way.
  /// The part of the host's links that other jobs than those asked about use, from 0 to 1.
  double link_load = 0;
};

/// What a tenant wants most of a job ([job] goal).
enum class ElasticGoal : uint8_t { kFastest, kCheapest, kDeadline };

/// Between which sizes a job may change ([elastic]). Each is 1 at least.
struct ElasticBounds {
  int32_t least = 1;
  int32_t most = std::numeric_limits<int32_t>::max();
  int32_t step = 1;  ///< Ranks come and leave by multiples of it.
};

/// A job that runs and may change its size. A job that may not has no part in this.
struct ElasticJob {
  uint64_t id = 0;
  uint32_t tenant = 0;              ///< Whose it is: TenantIdentity::across_hosts.
  std::vector<int32_t> ranks = {};  ///< By host, as many as there are hosts.
  /// By host: how many more ranks it can have there, as who starts them says; empty: as many as
  /// there are free places. Nobody starts ranks for it on a host where this is 0.
  std::vector<int32_t> room = {};
  ElasticBounds bounds = {};
  int priority = 0;  ///< A higher one goes first.
  ElasticGoal goal = ElasticGoal::kFastest;
  double deadline_seconds = 0;  ///< Since 1970; 0: there is none.
  double samples_left = 0;      ///< Until it is done; 0: not known.
  SpeedModel speed = {};
  double change_seconds = 1;       ///< How long it stands still for a change of its ranks.
  double quiet_until_seconds = 0;  ///< It does not want to be asked before then, since 1970.
  bool is_asked = false;           ///< An offer about its ranks is under way.

  /// Returns the number of its ranks.
  int32_t size() const { return std::accumulate(ranks.begin(), ranks.end(), 0); }
};

/// A job that wants to begin and has no places.
struct WaitingJob {
  uint64_t id = 0;
  int32_t ranks = 1;  ///< The fewest with which it begins.
  int priority = 0;
};

/// All that offers are decided by. A plain value.
struct ElasticWorld {
  double now_seconds = 0;  ///< Since 1970.
  std::vector<ElasticHost> hosts = {};
  std::vector<ElasticJob> jobs = {};
  std::vector<WaitingJob> waiting = {};  ///< In the order in which they are to begin.
  /// By tenant: its share, which is the most ranks that its elastic jobs may grow to together. What
  /// a tenant has up to its share is not taken from it for another one, except for jobs that wait.
  /// A tenant that is not named may have as many as there are, and others take none of them.
  std::map<uint32_t, int32_t> shares = {};
};

}  // namespace harmonaize::daemon
