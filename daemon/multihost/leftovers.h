#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "daemon/multihost/host_group.h"
#include "src/transport/transport.h"

namespace harmonaize::daemon {

/// What other hosts have sent of a communicator's collectives that are not begun here any more:
/// they say how many they had begun when they ended. Thread: engine.
class Leftovers {
 public:
  /// The peer has begun so many collectives.
  void Note(transport::PeerId peer, uint64_t collectives) {
    uint64_t& begun = begun_[peer];
    begun = std::max(begun, collectives);
  }
  /// Drops what the peers have sent of those from `first` on, which never begin here.
  void Drop(transport::Transport* transport, uint64_t key, uint64_t first) {
    for (const auto& [peer, collectives] : std::exchange(begun_, {})) {
      HostGroup::DropCollectives(transport, peer, key, first, collectives);
    }
  }

 private:
  std::map<transport::PeerId, uint64_t> begun_;
};

}  // namespace harmonaize::daemon
