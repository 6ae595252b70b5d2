#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/communicator/communicator_counts.h"
#include "daemon/metrics/usage_ledger.h"
#include "daemon/nccl_tuning/nccl_tuning.h"
#include "daemon/offers/offers.h"
#include "daemon/plans/congestion.h"
#include "daemon/profiles/profile_collector.h"
#include "daemon/quota/holdings.h"
#include "daemon/reports/report_sources.h"
#include "daemon/sizing/sizing.h"
#include "daemon/sources/cloud_notice.h"
#include "src/executor/host/executor.h"
#include "src/transport/transport.h"

namespace harmonaize::daemon {

/// A tenant, as metrics tell of it.
struct TenantFacts {
  TenantUsage usage;
  std::array<int64_t, kResourceCount> held{};  ///< By Resource.
};

/// Traffic of one rail to all peers. No counter ever falls, though peers come and go.
struct RailFacts {
  uint64_t connections = 0;  ///< Now.
  uint64_t astray = 0;       ///< Peers to which its own way carries nothing now.
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  uint64_t sent_packets = 0;
  uint64_t resent_packets = 0;
  double busy_seconds = 0;
};

/// One direction of a link of the provider's fabric. Rates are in bytes per second.
struct FabricLinkFacts {
  std::string name, from, to;
  double stated = 0;
  double planned = 0;
  double measured = 0;
};

/// Numbers of announcements for this host.
struct AnnouncementFacts {
  std::map<CloudNotice::Kind, uint64_t> scheduled;
  std::map<CloudNotice::Kind, uint64_t> started;
  uint64_t overdue = 0;  ///< Scheduled ones for which IsOverdue holds.
  bool draining = false;
  double drain_deadline_seconds = 0;  ///< Since 1970; 0: none.
};

/// Numbers of what elastic jobs are offered at this host.
struct ElasticFacts {
  OfferCounts offers;
  uint64_t agents = 0;
  uint64_t agent_places = 0;  ///< Ranks that they would start.
  SizingCounts sizing;
};

/// What the engine knows that metrics and bills are made from. Thread: any, once it is made.
struct EngineFacts {
  double started_seconds = 0;  ///< Since 1970; always the same.
  double uptime_seconds = 0;
  double gather_seconds = 0;  ///< The engine's time that it took to gather this.
  uint64_t sleeps = 0;
  uint64_t sessions_cut_off = 0;
  ExecutorCounters executor;
  CommunicatorCounts::Counts counts;

  std::vector<TenantFacts> tenants;  ///< Those that have been here.
  std::vector<TenantUsage> usage;    ///< As UsageLedger::Look returns it.
  ResourceLimits limits{};
  uint64_t active_tenants = 0;  ///< Tenants with a session.

  std::array<uint64_t, 3> communicators{};  ///< By Communicator::State.
  std::array<uint64_t, 3> congestion{};     ///< Communicators with their home here, by level.
  uint64_t ranks = 0;                       ///< Ranks on this host.
  uint64_t running_jobs = 0;
  uint64_t ended_jobs = 0;  ///< Ended jobs that are remembered.

  AnnouncementFacts announcements;
  ElasticFacts elastic;
  ProfileCollector::Counts profiles;  ///< What processes tell of NCCL's profiler events.
  NcclTuning::Counts tuning;          ///< Of the communicators whose tuners are advised.

  bool in_cluster = false;
  uint64_t linked_daemons = 0;
  transport::TransportCounters transport;
  std::map<std::string, RailFacts> rails;  ///< By name.
  std::vector<FabricLinkFacts> fabric_links;
};

/// Gathers what the engine knows. Thread: engine.
class FactGatherer {
 public:
  EngineFacts Gather(const ReportSources& sources);

 private:
  /// What a rail to a peer had carried at the last look.
  struct Carried {
    RailFacts traffic;
    bool seen = false;
  };

  void GatherTenants(const ReportSources& sources, EngineFacts* facts);
  void GatherCommunicators(const ReportSources& sources, EngineFacts* facts);
  void GatherAnnouncements(const ReportSources& sources, EngineFacts* facts);
  void GatherElastic(const ReportSources& sources, EngineFacts* facts);
  void GatherNetwork(const ReportSources& sources, EngineFacts* facts);
  void GatherRails(const ReportSources& sources, EngineFacts* facts);

  double started_seconds_ = 0;              // 0: nothing was gathered before
  std::map<std::string, RailFacts> rails_;  // by name
  std::map<std::pair<transport::PeerId, std::string>, Carried> carried_;
};

}  // namespace harmonaize::daemon
