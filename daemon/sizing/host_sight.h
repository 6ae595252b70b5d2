#pragma once

#include <cstdint>
#include <map>

#include "daemon/cluster/messages/sizing.h"
#include "daemon/jobs/job_table.h"
#include "daemon/links/traffic_meter.h"
#include "daemon/offers/offers.h"
#include "daemon/sizing/speed_history.h"

namespace harmonaize::daemon {

class Agents;
class Cluster;
class Communicator;
class CommunicatorRegistry;
class JobAdvisor;
class JobCommunicators;

/// Where a host's daemon finds what it tells of elastic jobs. All of it outlives who looks.
struct SightServices {
  const Cluster* cluster = nullptr;  ///< nullptr where this host stands alone.
  const CommunicatorRegistry* communicators = nullptr;
  const JobCommunicators* by_job = nullptr;
  const JobTable* jobs = nullptr;
  const JobAdvisor* advisor = nullptr;
  const Agents* agents = nullptr;
  const Offers* offers = nullptr;
  int64_t places = 0;  ///< For ranks on this host.
};

/// Looks at the elastic jobs of this host, and its places. Remembers how fast jobs were with other
/// numbers of ranks. Thread: engine.
class HostSight {
 public:
  explicit HostSight(const SightServices& services);

  /// Returns what is to be told of them now.
  HostSizesMessage Look(double now_seconds);
  /// Returns the places of this host that no rank has, and that are promised to none.
  int32_t FreePlaces(const std::map<const Job*, OfferStanding>& standings) const;
  /// Returns the job here that is meant; nullptr if there is none.
  Job* Find(const SizeOfferMessage& offer) const;

 private:
  using Histories = std::map<JobTable::Key, SpeedHistory>;

  uint64_t GroupOf(const Job& job) const;
  bool TakesPart(const Job& job) const;
  int64_t Taken(const Job& job, const OfferStanding& standing) const;
  JobSizeView ViewOf(const Job& job, const OfferStanding& standing, SpeedHistory* history) const;
  void AddProgress(const Job& job, SpeedHistory* history, JobSizeView* view) const;
  double LinkLoad(double now_seconds);

  const SightServices services_;
  const uint64_t salt_;  ///< Tells groups of this host alone from those of others.
  Histories histories_;
  TrafficMeter meter_;
};

}  // namespace harmonaize::daemon
