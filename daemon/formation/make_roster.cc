#include "daemon/formation/make_roster.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>

#include "daemon/cluster/cluster.h"
#include "daemon/plans/fabrics.h"
#include "src/base/log.h"
#include "src/base/random.h"
#include "src/transport/address.h"
#include "src/transport/cluster_key.h"

namespace harmonaize::daemon {
namespace {

/// Numbers the hosts by the provider's fabric if all of them are in it. Otherwise the hosts count
/// as connected to one switch.
void PlaceOnFabric(const std::vector<Applicant>& speakers, const Cluster& cluster, Fabrics& fabrics,
                   Roster* roster) {
  const std::shared_ptr<const FabricModel>& provided = cluster.fabric();
  if (provided != nullptr) {
    for (const Applicant& speaker : speakers) {
      std::string name = speaker.host;
      const auto address = transport::NetworkAddress::Parse(speaker.address);
      if (name.empty() && address.ok()) name = HostAt(*provided, address->HostText());
      const int host = provided->HostNamed(name);
      const bool twice = std::find(roster->fabric_hosts.begin(), roster->fabric_hosts.end(),
                                   host) != roster->fabric_hosts.end();
      if (host < 0 || twice) {
        Log(LogLevel::kWarning, kLogTuning,
            "the daemon at {} is {} in the fabric file, so a communicator of {} hosts is planned "
            "for one switch",
            speaker.address, host < 0 ? "no host" : "a second one at a host", speakers.size());
        break;
      }
      roster->fabric_hosts.push_back(host);
    }
    roster->fabric = fabrics.own();
    if (roster->fabric_hosts.size() == speakers.size()) return;
  }
  roster->fabric_hosts.clear();
  for (size_t host = 0; host < speakers.size(); ++host) {
    roster->fabric_hosts.push_back(static_cast<int>(host));
  }
  roster->fabric = fabrics.OneSwitch(static_cast<int>(speakers.size())).digest;
}

}  // namespace

Roster MakeRoster(const std::vector<Applicant>& ranks, const Cluster& cluster, Fabrics& fabrics) {
  Roster roster;
  std::vector<Applicant> speakers;  // by host, one of its ranks
  for (const Applicant& rank : ranks) {
    const auto known = std::find(roster.peers.begin(), roster.peers.end(), rank.peer);
    const auto host = static_cast<int>(known - roster.peers.begin());
    roster.host_of_rank.push_back(host);
    if (known != roster.peers.end()) continue;
    roster.peers.push_back(rank.peer);
    roster.addresses.push_back(rank.peer == kThisDaemon ? cluster.address() : rank.address);
    speakers.push_back(rank);
    if (rank.peer == kThisDaemon) {
      roster.self = host;
      speakers.back().address = cluster.address();
      speakers.back().host = cluster.host_name();
    }
  }
  while (roster.key == 0) {
    if (!FillRandom(std::as_writable_bytes(std::span(&roster.key, 1))).ok()) break;
  }
  PlaceOnFabric(speakers, cluster, fabrics, &roster);
  return roster;
}

}  // namespace harmonaize::daemon
