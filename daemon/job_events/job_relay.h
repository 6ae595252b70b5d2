#pragma once

#include <cstdint>
#include <functional>

#include "daemon/cluster/messages/message.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class Communicator;
class CommunicatorRegistry;
class JobCommunicators;
struct Job;

/// Brings what is said of a job to all hosts that the job is on: to the homes of its communicators,
/// which pass it on to the hosts of those. What has come from another daemon is passed on in the
/// same way, so a daemon may hear it twice, and must know it again. Thread: engine.
class JobRelay {
 public:
  /// All of these outlive this object.
  struct Services {
    Cluster* cluster = nullptr;  ///< nullptr where this host stands alone: nothing is sent then.
    const CommunicatorRegistry* communicators = nullptr;
    const JobCommunicators* by_job = nullptr;
  };

  /// The way by which something has come: the communicator, and the daemon that sent it.
  struct CameBy {
    const Communicator* communicator = nullptr;  ///< nullptr: it begins here.
    transport::PeerId peer = 0;
  };

  explicit JobRelay(const Services& services) : services_(services) {}

  /// Returns the communicator with this key (Roster::key) by which a daemon tells of a job. Returns
  /// nullptr if it has ended here, spans no hosts, or is none of which that daemon may tell.
  const Communicator* ToldOf(uint64_t about, transport::PeerId peer) const;

  /// Sends a message, whose `about` is set, to all other hosts of the job. Returns whether all
  /// daemons have taken it that have to: one takes nothing while too much of the tenant's waits for
  /// it.
  template <typename Message>
  bool Spread(const Job& job, const Message& message, const CameBy& came_by) const {
    return Visit(job, came_by, [&](const Communicator& communicator) {
      return SendBy(communicator, message, came_by);
    });
  }

  /// Sends a message, whose `about` is set, to the home of a communicator that spans hosts, or from
  /// there to its hosts. Returns as Spread.
  template <typename Message>
  bool SendBy(const Communicator& communicator, Message message, const CameBy& came_by) const {
    message.about = KeyOf(communicator);
    return SendTo(communicator, ClusterMessage(std::move(message)), came_by);
  }

  /// Sends a message, whose `about` is set, to one daemon alone, from which something has come by
  /// way of this communicator. Returns as Spread.
  template <typename Message>
  bool Reply(const Communicator& communicator, transport::PeerId peer, Message message) const {
    message.about = KeyOf(communicator);
    return SendToPeer(communicator, peer, ClusterMessage(std::move(message)));
  }

 private:
  bool SendToPeer(const Communicator& communicator, transport::PeerId peer,
                  const ClusterMessage& message) const;
  bool Visit(const Job& job, const CameBy& came_by,
             const std::function<bool(const Communicator&)>& send) const;
  bool SendTo(const Communicator& communicator, const ClusterMessage& message,
              const CameBy& came_by) const;
  static uint64_t KeyOf(const Communicator& communicator);

  const Services services_;
};

}  // namespace harmonaize::daemon
