#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "daemon/cluster/messages/message.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class Communicator;

/// Messages of other daemons about communicators that are not here. A message about a communicator
/// that the home has not announced yet is kept until it does. A message about one that has ended is
/// dropped, with an answer where the sender waits for one. Thread: engine.
class StrayMessages {
 public:
  /// `cluster` is nullptr where this host stands alone, and no message comes.
  explicit StrayMessages(Cluster* cluster) : cluster_(cluster) {}

  /// Takes in what a peer says about the communicator. Requires: it is not here.
  void OnMessage(transport::PeerId peer, uint64_t key, const ClusterMessage& message);
  /// Hands the communicator what was kept for it.
  void DeliverTo(Communicator* communicator, uint64_t key);
  /// Notes that the communicator has ended here, after so many collectives had begun.
  void NoteEnded(uint64_t key, uint64_t collectives);
  /// Drops what was kept for a communicator that has ended. Requires: NoteEnded.
  void DropKeptFor(uint64_t key);
  /// Forgets what was kept of a peer.
  void OnPeerLost(transport::PeerId peer);

 private:
  struct Kept {
    transport::PeerId peer;
    uint64_t key;
    ClusterMessage message;
  };
  struct Ended {
    uint64_t key;
    uint64_t collectives;  ///< That had begun.
  };

  bool HasEnded(uint64_t key) const;
  void Drop(transport::PeerId peer, uint64_t key, const ClusterMessage& message);

  Cluster* const cluster_;
  std::deque<Kept> kept_;
  std::deque<Ended> ended_;
};

}  // namespace harmonaize::daemon
