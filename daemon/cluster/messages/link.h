#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/planner/rated_models.h"

namespace harmonaize::daemon {

// These messages tell what links carry, and share the links out among jobs (docs/control-loop.md).

/// The recent traffic of one communicator over one rail.
struct TrafficJob {
  uint32_t user = 0;
  uint64_t communicator = 0;
  double weight = 1;  ///< The tenant's weight, with the job's priority in it.
  double bytes_per_second = 0;
  uint64_t sent_bytes = 0;  ///< The total, which is counted anew now and then.
};

/// The recent traffic of one host to another over one rail, and how the traffic back fared.
struct TrafficFlow {
  int peer = 0;  ///< A host of the fabric.
  uint64_t rail = 0;
  double bytes_per_second = 0;  ///< Sent.
  double busy = 0;              ///< Fraction of the time in which there was something to send.
  double arrival_queue = -1;    ///< Seconds that arriving traffic waited in queues; < 0: not known.
  /// Whether its traffic, if any, went another way than the rail's own.
  bool astray = false;
  std::vector<TrafficJob> jobs{};
};

/// The load of one NIC of the host, by all programs together.
struct TrafficNic {
  int nic = 0;      ///< Its number at the host in the fabric.
  double sent = 0;  ///< Bytes a second.
  double received = 0;
  double queued_bytes = -1;  ///< Bytes that waited to be sent; < 0: not known.
};

/// A communicator that computes and sends by turns, as the host of its rank 0 sees it; see
/// Rhythm::Beat.
struct TrafficRhythm {
  uint32_t user = 0;
  uint64_t communicator = 0;
  uint64_t bursts = 0;
  double burst_seconds = 0;
  double pause_seconds = 0;
  double iteration_seconds = 0;
  double begun_seconds = 0;
};

/// The terms that the traffic of a communicator has by what was granted to its job.
struct TrafficTerms {
  uint32_t user = 0;
  uint64_t communicator = 0;
  uint64_t owner = 0;  ///< Communicators of a user with one owner have floor and cap together.
  int priority = 0;
  double floor = 0;  ///< Bytes a second; 0: none was granted.
  double cap = 0;    ///< Bytes a second; 0: no limit.
  /// Bytes a second that the floors of the user's owners may promise together on an edge.
  double tenant_floor = 0;
  double tenant_cap = 0;  ///< Bytes a second of all the user's owners together; 0: no limit.
};

/// To the homes of the communicators that were active here, and to the controller: all that this
/// host has sent and received.
struct TrafficMessage {
  static constexpr MessageKind kKind = MessageKind::kTraffic;
  uint64_t fabric = 0;
  int host = 0;  ///< The sender's number in the fabric.
  std::vector<TrafficFlow> flows{};
  std::vector<TrafficNic> nics{};
  std::vector<uint64_t>
      homes{};  ///< Communicators that were active, of which the sender is the home.
  std::vector<TrafficRhythm> rhythms{};
  std::vector<TrafficTerms> terms{};  ///< Terms of the communicators whose bytes `flows` has.
};

/// The rate at which a user's communicators may send over one rail of the receiver, while others
/// need its links.
struct RailShare {
  int peer = 0;  ///< A host of the fabric.
  uint64_t rail = 0;
  uint32_t user = 0;
  uint64_t owner = 0;  ///< TrafficTerms::owner; 0: all of the user's communicators together.
  double bytes_per_second = 0;  ///< Above 0.
};

/// The rates that a communicator can have on these edges beside the traffic of others.
struct JobRates {
  uint64_t communicator = 0;
  EdgeRates rates{};
};

/// A communicator whose bursts collide with others': each of them waits for its turn, but no longer
/// than this.
struct JobWait {
  /// Longest wait, in seconds, that a daemon accepts.
  static constexpr double kLongestSeconds = 60;

  uint64_t communicator = 0;
  double seconds = 0;  ///< Above 0, and kLongestSeconds at most.
};

/// How the floor of a communicator's job fares.
struct FloorWord {
  uint64_t communicator = 0;
  double floor = 0;  ///< The floor that this is about, in bytes a second.
  /// Whether the floor does not hold, since what can be promised of an edge is promised already.
  bool refused = false;
  double room = 0;  ///< If refused: the largest floor that would hold.
  /// If refused: whether it is the bound of this tenant's floors that leaves no more room.
  bool tenant_bound = false;
  bool missed = false;  ///< Whether the job has wanted its floor and had less, for a while.
  double had = 0;       ///< If missed: what it had where it had least.
};

/// From the controller, to the daemons that tell it of traffic: again and again, though nothing has
/// changed.
struct SharesMessage {
  static constexpr MessageKind kKind = MessageKind::kShares;
  uint64_t fabric = 0;
  /// Present rates of the edges whose rate is not the one that the fabric states.
  EdgeRates links{};
  std::vector<RailShare> limits{};  ///< Limits; all other tenants may send what they can.
  std::vector<JobRates> jobs{};     ///< Communicators of which the receiver is the home.
  std::vector<JobWait> waits{};     ///< Communicators whose rhythm the receiver has told.
  std::vector<FloorWord> floors{};  ///< Communicators with a floor that it has told of.
};

/// From the daemon that has a JobWait for a communicator, to the controller: a burst of the
/// communicator is ready to begin, or has ended.
struct BurstMessage {
  static constexpr MessageKind kKind = MessageKind::kBurst;
  uint64_t fabric = 0;
  uint32_t user = 0;
  uint64_t communicator = 0;
  uint64_t burst = 0;  ///< Its number.
  bool ended = false;
};

/// The controller's answer: the burst may begin.
struct BurstTurnMessage {
  static constexpr MessageKind kKind = MessageKind::kBurstTurn;
  uint64_t fabric = 0;
  uint64_t communicator = 0;
  uint64_t burst = 0;
};

/// From a home to the host `from`: a request to find out what one of its rails carries now.
struct AskLinkProbeMessage {
  static constexpr MessageKind kKind = MessageKind::kAskLinkProbe;
  uint64_t fabric = 0;
  uint64_t probe = 0;  ///< Drawn by the home; not 0.
  int from = 0;        ///< Hosts of the fabric.
  int to = 0;
  uint64_t rail = 0;
};

/// To the host that gets the data: this many messages come, and it is to tell how fast they came.
struct LinkProbeMessage {
  static constexpr MessageKind kKind = MessageKind::kLinkProbe;
  uint64_t probe = 0;
  int messages = 0;
};

/// The receiver tells the sender how fast a probe came; the sender tells the home.
struct LinkProbedMessage {
  static constexpr MessageKind kKind = MessageKind::kLinkProbed;
  uint64_t probe = 0;
  double bytes_per_second = 0;
};

using LinkMessages = MessageList<TrafficMessage, SharesMessage, BurstMessage, BurstTurnMessage,
                                 AskLinkProbeMessage, LinkProbeMessage, LinkProbedMessage>;

}  // namespace harmonaize::daemon
