#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "daemon/multihost/host_group.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

/// Messages of other hosts for collectives of a communicator that do not begin here any more. The
/// hosts say how many collectives they had begun when they ended. Thread: engine.
class Leftovers {
 public:
  /// Notes that the peer has begun this many collectives.
  void Note(transport::PeerId peer, uint64_t collectives) {
    uint64_t& begun = begun_[peer];
    begun = std::max(begun, collectives);
  }
  /// Drops what the peers have sent of the collectives from `first` on, which never begin here.
  void Drop(Cluster* cluster, uint64_t key, uint64_t first) {
    for (const auto& [peer, collectives] : std::exchange(begun_, {})) {
      HostGroup::DropCollectives(cluster, peer, key, first, collectives);
    }
  }

 private:
  std::map<transport::PeerId, uint64_t> begun_;
};

}  // namespace harmonaize::daemon
