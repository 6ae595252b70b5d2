#include "daemon/formation/home_address.h"

#include <algorithm>
#include <vector>

#include "daemon/cluster/cluster.h"
#include "daemon/communicator/communicator_registry.h"
#include "daemon/multihost/host_group.h"
#include "src/transport/address.h"

namespace harmonaize::daemon {
namespace {

bool IsLost(const Communicator& parent, const Cluster* cluster) {
  const HostGroup* const group = parent.host_group();
  return group != nullptr && !group->is_home() && !cluster->Linked(group->roster().home);
}

/// Returns whether a shrink keeps no rank at the parent's home.
bool LeavesHome(const Communicator& parent, const std::vector<int>& excluded) {
  const HostGroup* const group = parent.host_group();
  if (group == nullptr) return false;
  const Roster& roster = group->roster();
  const int home = group->is_home() ? roster.self : roster.HostOf(roster.home);
  for (int rank = 0; rank < parent.ranks(); ++rank) {
    const bool there = roster.host_of_rank[static_cast<size_t>(rank)] == home;
    if (there && !std::binary_search(excluded.begin(), excluded.end(), rank)) return false;
  }
  return true;
}

/// Returns the daemon of the first rank that remains. All ranks that exclude the same ranks find
/// the same daemon.
HomeAddress HomeOfRemaining(const Roster& roster, const std::vector<int>& excluded,
                            const Cluster& cluster) {
  int first = 0;
  while (std::binary_search(excluded.begin(), excluded.end(), first)) ++first;
  const auto host = static_cast<size_t>(roster.host_of_rank[static_cast<size_t>(first)]);
  if (static_cast<int>(host) == roster.self) return HomeAddress{};
  const std::optional<transport::PeerId> peer = roster.peers[host];
  HomeAddress home{.here = false, .address = roster.addresses[host]};
  if (peer.has_value() && cluster.Linked(*peer)) home.peer = peer;
  return home;
}

}  // namespace

Result<HomeAddress> HomeOf(const Communicator& communicator, const Cluster* cluster) {
  if (IsLost(communicator, cluster)) {
    return RemoteError("the daemon that looked after the communicator does not answer any more");
  }
  const HostGroup* const group = communicator.host_group();
  if (group == nullptr || group->is_home()) return HomeAddress{};
  return HomeAddress{.here = false, .peer = group->roster().home};
}

Result<HomeAddress> HomeFor(const FormationRequest& request,
                            const CommunicatorRegistry& communicators, const Cluster* cluster) {
  if (cluster == nullptr) return HomeAddress{};
  if (request.kind == FormationKind::kJoin || request.kind == FormationKind::kJoinGrowth) {
    HZ_ASSIGN_OR_RETURN(const std::optional<transport::NetworkAddress> home,
                        cluster->HomeOf(request.id));
    if (!home.has_value()) return HomeAddress{};
    return HomeAddress{.here = false, .address = home->ToString()};
  }
  const Communicator* const parent = communicators.FindById(request.parent);
  if (parent == nullptr) return RemoteError("the communicator is gone");
  // The ranks that remain can shrink without the parent's home. They do so as well where they leave
  // it: the end of a daemon that has none of their ranks is no loss to them then.
  const bool shrinks = request.kind == FormationKind::kShrink;
  if (shrinks && (IsLost(*parent, cluster) || LeavesHome(*parent, request.excluded))) {
    return HomeOfRemaining(parent->host_group()->roster(), request.excluded, *cluster);
  }
  return HomeOf(*parent, cluster);
}

}  // namespace harmonaize::daemon
