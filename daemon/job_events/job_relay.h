#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "daemon/cluster/messages/message.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Cluster;
class Communicator;
class CommunicatorRegistry;
class JobAttachments;
class JobCommunicators;
struct Job;

/// What two daemons have in common of a job, by which they tell each other of it: a communicator
/// that spans hosts, or an agent (JobAttachments). Holds until either has ended.
struct JobWay {
  Job* job = nullptr;
  uint64_t key = 0;  ///< `about` of messages: Roster::key, or the agent's number.
  const Communicator* communicator = nullptr;  ///< nullptr: an agent.
};

/// Brings what is said of a job to all hosts that the job is on: to the homes of its communicators,
/// which pass it on to the hosts of those, and to hosts that have an agent alone. What has come
/// from another daemon is passed on in the same way, so a daemon may hear it twice, and must know
/// it again. Thread: engine.
class JobRelay {
 public:
  /// All of these outlive this object.
  struct Services {
    Cluster* cluster = nullptr;  ///< nullptr where this host stands alone: nothing is sent then.
    const CommunicatorRegistry* communicators = nullptr;
    const JobCommunicators* by_job = nullptr;
    const JobAttachments* attachments = nullptr;
  };

  /// How something has come: by which way, and the daemon that sent it.
  struct CameBy {
    std::optional<JobWay> way = {};  ///< nullopt: it begins here.
    transport::PeerId peer = 0;
  };

  explicit JobRelay(const Services& services) : services_(services) {}

  /// Returns the way with this key by which a daemon tells of a job; nullopt if it has ended here,
  /// spans no hosts, or is none by which that daemon may tell.
  std::optional<JobWay> ToldOf(uint64_t about, transport::PeerId peer) const;

  /// Sends a message, whose `about` is set, to all other hosts of the job. Returns whether all
  /// daemons have taken it that have to: one takes nothing while too much of the tenant's waits for
  /// it. A daemon whose release does not know such messages is passed over.
  template <typename Message>
  bool Spread(const Job& job, const Message& message, const CameBy& came_by) const {
    return Visit(job, came_by, [&](const JobWay& way, transport::PeerId peer) {
      return Reply(way, peer, message);
    });
  }

  /// Sends a message, whose `about` is set, to the home of a communicator that spans hosts, or from
  /// there to its hosts. Returns as Spread.
  template <typename Message>
  bool SendBy(const Communicator& communicator, const Message& message) const {
    return VisitHosts(communicator, {}, [&](const JobWay& way, transport::PeerId peer) {
      return Reply(way, peer, message);
    });
  }

  /// Sends a message, whose `about` is set, to one daemon alone. Returns as Spread.
  template <typename Message>
  bool Reply(const JobWay& way, transport::PeerId peer, Message message) const {
    message.about = way.key;
    return SendToPeer(*way.job, peer, ClusterMessage(std::move(message)));
  }

 private:
  using SendOne = std::function<bool(const JobWay& way, transport::PeerId peer)>;

  bool Visit(const Job& job, const CameBy& came_by, const SendOne& send) const;
  bool VisitHosts(const Communicator& communicator, const CameBy& came_by,
                  const SendOne& send) const;
  bool SendToPeer(const Job& job, transport::PeerId peer, const ClusterMessage& message) const;

  const Services services_;
};

}  // namespace harmonaize::daemon
