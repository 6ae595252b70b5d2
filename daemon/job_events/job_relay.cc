#include "daemon/job_events/job_relay.h"

#include <set>
#include <string>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/job_events/job_attachments.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/jobs/job_table.h"
#include "daemon/multihost/host_group.h"
#include "daemon/tenant/tenant.h"

namespace harmonaize::daemon {
namespace {

JobWay WayOf(const Communicator& communicator) {
  return {.job = communicator.job(),
          .key = communicator.host_group()->roster().key,
          .communicator = &communicator};
}

}  // namespace

std::optional<JobWay> JobRelay::ToldOf(uint64_t about, transport::PeerId peer) const {
  if (Job* const job = services_.attachments->JobOf(about, peer)) {
    return JobWay{.job = job, .key = about};
  }
  const Communicator* const communicator = services_.communicators->FindByKey(about);
  if (communicator == nullptr || communicator->host_group() == nullptr) return std::nullopt;
  const HostGroup& group = *communicator->host_group();
  const bool may_tell =
      group.is_home() ? group.roster().HostOf(peer) >= 0 : group.roster().home == peer;
  if (!may_tell) return std::nullopt;
  return WayOf(*communicator);
}

// Calls `send` for daemons by which the message reaches all other hosts of the job. Returns whether
// all calls did.
bool JobRelay::Visit(const Job& job, const CameBy& came_by, const SendOne& send) const {
  if (services_.cluster == nullptr) return true;
  bool all = true;
  std::set<std::string> covered;
  const Communicator* const by = came_by.way.has_value() ? came_by.way->communicator : nullptr;
  if (by != nullptr) {
    covered = JobCommunicators::HostsOf(*by);
    // Only its home reaches all hosts of the communicator by which the message came.
    if (by->host_group()->is_home()) all = VisitHosts(*by, came_by, send);
  }
  services_.by_job->VisitWays(job, std::move(covered), [&](const Communicator& communicator) {
    all &= VisitHosts(communicator, came_by, send);
  });
  services_.attachments->VisitOf(job, [&](Job* of, uint64_t agent, transport::PeerId peer) {
    if (came_by.way.has_value() && peer == came_by.peer) return;
    all &= send({.job = of, .key = agent}, peer);
  });
  return all;
}

// Calls `send` for the home of a communicator, or from there for its hosts, but not for the daemon
// from which the message came.
bool JobRelay::VisitHosts(const Communicator& communicator, const CameBy& came_by,
                          const SendOne& send) const {
  const JobWay way = WayOf(communicator);
  const auto send_to = [&](transport::PeerId peer) {
    if (came_by.way.has_value() && peer == came_by.peer) return true;
    return send(way, peer);
  };
  const HostGroup& group = *communicator.host_group();
  if (!group.is_home()) return send_to(group.roster().home);
  bool all = true;
  for (const std::optional<transport::PeerId>& peer : group.roster().peers) {
    if (peer.has_value() && *peer != kThisDaemon) all &= send_to(*peer);
  }
  return all;
}

// A daemon of an earlier release never comes to know a kind of message, so nothing is owed to it.
bool JobRelay::SendToPeer(const Job& job, transport::PeerId peer,
                          const ClusterMessage& message) const {
  if (!services_.cluster->CheckKnown(peer, message.kind()).ok()) return true;
  return services_.cluster->SendFor(job.tenant->identity, peer, message).ok();
}

}  // namespace harmonaize::daemon
