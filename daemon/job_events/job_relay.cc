#include "daemon/job_events/job_relay.h"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/job_events/job_communicators.h"
#include "daemon/multihost/host_group.h"

namespace harmonaize::daemon {

const Communicator* JobRelay::ToldOf(uint64_t about, transport::PeerId peer) const {
  const Communicator* const communicator = services_.communicators->FindByKey(about);
  if (communicator == nullptr || communicator->host_group() == nullptr) return nullptr;
  const HostGroup& group = *communicator->host_group();
  const bool may_tell =
      group.is_home() ? group.roster().HostOf(peer) >= 0 : group.roster().home == peer;
  return may_tell ? communicator : nullptr;
}

// Calls `send(communicator)` with communicators that reach all other hosts of the job. Returns
// whether all calls did.
bool JobRelay::Visit(const Job& job, const CameBy& came_by,
                     const std::function<bool(const Communicator&)>& send) const {
  if (services_.cluster == nullptr) return true;
  bool all = true;
  std::set<std::string> covered;
  if (came_by.communicator != nullptr) {
    covered = JobCommunicators::HostsOf(*came_by.communicator);
    // Only its home reaches all hosts of the communicator by which the message came.
    if (came_by.communicator->host_group()->is_home()) all = send(*came_by.communicator);
  }
  services_.by_job->VisitWays(job, std::move(covered),
                              [&](const Communicator& communicator) { all &= send(communicator); });
  return all;
}

bool JobRelay::SendToPeer(const Communicator& communicator, transport::PeerId peer,
                          const ClusterMessage& message) const {
  return services_.cluster->SendFor(communicator.tenant().identity, peer, message).ok();
}

bool JobRelay::SendTo(const Communicator& communicator, const ClusterMessage& message,
                      const CameBy& came_by) const {
  const auto send = [&](transport::PeerId peer) {
    if (came_by.communicator != nullptr && peer == came_by.peer) return true;
    return SendToPeer(communicator, peer, message);
  };
  const HostGroup& group = *communicator.host_group();
  if (!group.is_home()) return send(group.roster().home);
  bool all = true;
  for (const std::optional<transport::PeerId>& peer : group.roster().peers) {
    if (peer.has_value() && *peer != kThisDaemon) all &= send(*peer);
  }
  return all;
}

uint64_t JobRelay::KeyOf(const Communicator& communicator) {
  return communicator.host_group()->roster().key;
}

}  // namespace harmonaize::daemon
