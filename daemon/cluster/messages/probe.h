#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// Messages of a probe: one daemon, the coordinator, has others measure the network among
// themselves. `probe` is its number, drawn by the coordinator.

/// Asks a daemon to take part: it listens at its NICs' addresses until ProbeEndMessage. Peers that
/// connect there have to show the token. Answered by ProbeReadyMessage.
struct ProbeOpenMessage {
  static constexpr MessageKind kKind = MessageKind::kProbeOpen;
  uint64_t probe = 0;
  std::vector<uint8_t> token{};
};

struct ProbeNic {
  std::string device{};
  std::string address{};  ///< IPv4.
  int port = 0;           ///< The port that the daemon listens at.
};

struct ProbeReadyMessage {
  static constexpr MessageKind kKind = MessageKind::kProbeReady;
  uint64_t probe = 0;
  std::string host{};
  std::vector<ProbeNic> nics{};
  Status status{};
};

/// An address to connect to, and the NIC to connect from.
struct ProbeTarget {
  int nic = 0;  ///< The receiver's own.
  std::string address{};
  int port = 0;
  std::vector<uint8_t> token{};
  int transfer = 0;  ///< Its number in the set; round trips have none.
  int connections = 1;
};

/// Asks for round trips to these targets, one after the other. Answered by ProbeResultMessage with
/// samples.
struct ProbeRoundTripsMessage {
  static constexpr MessageKind kKind = MessageKind::kProbeRoundTrips;
  uint64_t probe = 0;
  uint64_t step = 0;  ///< A number that differs for each of the coordinator's questions.
  int samples = 0;
  std::vector<ProbeTarget> targets{};
};

/// Asks for these connections to be made. Answered by ProbeResultMessage.
struct ProbeConnectMessage {
  static constexpr MessageKind kKind = MessageKind::kProbeConnect;
  uint64_t probe = 0;
  uint64_t step = 0;
  std::vector<ProbeTarget> targets{};
};

/// Asks a daemon to send over the connections that it made at step `set`, and to receive over those
/// that others made to it at that step, both from `delay` seconds on and for `seconds`. Then all of
/// them are closed. Answered by ProbeResultMessage with counts.
struct ProbeRunMessage {
  static constexpr MessageKind kKind = MessageKind::kProbeRun;
  uint64_t probe = 0;
  uint64_t step = 0;
  uint64_t set = 0;
  double delay = 0;
  double seconds = 0;
};

struct ProbeCount {
  int transfer = 0;
  int64_t bytes = 0;  ///< Bytes that arrived in the second half of the time.
};

struct ProbeResultMessage {
  static constexpr MessageKind kKind = MessageKind::kProbeResult;
  uint64_t probe = 0;
  uint64_t step = 0;
  std::vector<std::vector<double>> samples{};  ///< By target, in seconds; none: not reachable.
  std::vector<ProbeCount> counts{};
  Status status{};
};

/// From the coordinator: the probe is over. From another daemon: it takes part no more.
struct ProbeEndMessage {
  static constexpr MessageKind kKind = MessageKind::kProbeEnd;
  uint64_t probe = 0;
  std::string why{};
};

using ProbeMessages =
    MessageList<ProbeOpenMessage, ProbeReadyMessage, ProbeRoundTripsMessage, ProbeConnectMessage,
                ProbeRunMessage, ProbeResultMessage, ProbeEndMessage>;

}  // namespace harmonaize::daemon
