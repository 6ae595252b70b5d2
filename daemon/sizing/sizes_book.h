#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/cluster/messages/sizing.h"
#include "daemon/elasticity/elastic_world.h"
#include "daemon/identity/job_identity.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// An elastic job as all of its hosts tell of it.
struct SizedJob {
  uint32_t user = 0;  ///< The tenant: TenantIdentity::across_hosts.
  JobIdentity id = {};
  uint64_t group = 0;  ///< JobSizeView::group.
  std::string label = {};
  std::string tenant = {};
  double notice_seconds = 0;
  int32_t most_ranks = 0;    ///< As it was granted, whatever is known of its speed.
  bool knows_speed = false;  ///< Its steps have been seen.
  /// Whether all of its ranks are at hosts that have told of it. If not, it is just changing, or a
  /// host of it takes no part, and it is left alone.
  bool is_whole = false;
};

/// All that is known of places and elastic jobs at one moment. A plain value.
struct SizingLook {
  /// Its hosts and jobs are those below, in the same order.
  ElasticWorld world = {};
  struct Host {
    transport::PeerId peer = 0;
    std::string name = {};
    int places = 0;
  };
  std::vector<Host> hosts = {};
  std::vector<SizedJob> jobs = {};
};

/// What the daemons of all hosts have told the controller of places and elastic jobs. Time is
/// passed in.
class SizesBook {
 public:
  /// What a daemon tells counts for so many seconds.
  explicit SizesBook(double counts_for_seconds) : counts_for_seconds_(counts_for_seconds) {}

  /// Takes in what a daemon tells.
  void Take(transport::PeerId peer, HostSizesMessage sizes, double now_seconds);
  /// Forgets a daemon that is gone.
  void Forget(transport::PeerId peer) { reports_.erase(peer); }

  /// Returns the most ranks that a tenant's jobs may grow to together by the provider's policy; 0:
  /// its share.
  using MostOfTenant = std::function<int64_t(uint32_t user)>;
  /// Returns what is known now, with each tenant's share of all places. Forgets what is too old.
  SizingLook Look(double now_seconds, std::vector<WaitingJob> waiting,
                  const MostOfTenant& most_of_tenant);

 private:
  struct Report {
    HostSizesMessage sizes;
    double at_seconds = 0;
  };
  /// The user, the job, and its group.
  using JobKey = std::pair<std::pair<uint32_t, JobIdentity>, uint64_t>;
  /// What hosts tell of one job: the place of the host in the look, and its view.
  using Views = std::vector<std::pair<size_t, const JobSizeView*>>;

  static void AddJobs(const std::map<JobKey, Views>& views, SizingLook* look);
  static void AddJob(const JobKey& key, const JobSizeView& informed, const Views& views,
                     bool is_alone, SizingLook* look);
  static void AddShares(const MostOfTenant& most_of_tenant, SizingLook* look);

  const double counts_for_seconds_;
  std::map<transport::PeerId, Report> reports_;
};

}  // namespace harmonaize::daemon
