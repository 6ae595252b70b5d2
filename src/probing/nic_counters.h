#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"

struct nl_sock;

namespace harmonaize {

/// The queue of data that a device is still to send: its root queueing discipline, with all below
/// it (for mq and mqprio, the queues of all the card's rings).
struct SendQueueCounters {
  std::string kind;  ///< Name as in tc(8): "mq", "fq_codel", "tbf".
  /// Bytes that wait now, with the headers that they will have on the link. Excludes data that
  /// sockets have not handed down yet, or that the card's driver has taken already.
  uint64_t queued_bytes = 0;
  /// Packets that did not fit, or that the queue dropped early as some kinds do.
  uint64_t drops = 0;
  /// Number of times that a limit of the queue's own, such as a rate, delayed a packet. Kinds
  /// without such a limit leave it at 0 or count marks and drops here.
  uint64_t overlimits = 0;
};

/// Counters of a network device since it was made. All of them only grow, except `queued_bytes`.
/// They begin anew at 0 when the device, or for `queue` the queue, is replaced, and a queue's drops
/// and overlimits wrap around after 2^32 - 1.
struct NicCounters {
  std::string device;  ///< "eth0"

  uint64_t sent_bytes = 0;  ///< With the link's headers.
  uint64_t received_bytes = 0;
  /// One for each frame on the link, except where large packets are never cut up (veth, loopback).
  uint64_t sent_packets = 0;
  uint64_t received_packets = 0;

  /// Packets lost because there was no room or no receiver: the kernel's tx_dropped, and rx_dropped
  /// with rx_missed_errors. Excludes packets that the queue drops.
  uint64_t send_drops = 0;
  uint64_t receive_drops = 0;
  /// Packets that were broken, or could not be sent: tx_errors and rx_errors. They point to cables
  /// and cards, not to congestion.
  uint64_t send_errors = 0;
  uint64_t receive_errors = 0;

  /// nullopt if there is none, as for a device that is down, or that sends at once ("noqueue").
  std::optional<SendQueueCounters> queue;
};

/// Reads the counters of network devices from the kernel (rtnetlink). Needs no privileges. Thread:
/// any, one at a time.
class NicCounterReader {
 public:
  /// Opens a reader for the devices of the network namespace that the calling thread is in now.
  /// Errors: kSystemError.
  static Result<std::unique_ptr<NicCounterReader>> Open();

  /// Returns counters in the order of `devices`; a device that does not exist is left out.
  ///
  /// Asks the kernel once for each device and once for all queues of the host, those of other
  /// devices too. It waits only for a process that changes the network's settings at this time,
  /// because both take the same lock of the kernel's. Errors: kSystemError; the next call begins
  /// afresh.
  Result<std::vector<NicCounters>> Read(std::span<const std::string> devices);

 private:
  struct SocketCloser {
    void operator()(nl_sock* socket) const;
  };
  using Socket = std::unique_ptr<nl_sock, SocketCloser>;

  explicit NicCounterReader(Socket socket) : socket_(std::move(socket)) {}

  Socket socket_;
};

}  // namespace harmonaize
