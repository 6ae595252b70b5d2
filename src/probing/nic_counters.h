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

/// The queue of what a device is still to send: its root queueing discipline, with all below it
/// (for mq and mqprio, the queues of all the card's rings).
struct SendQueueCounters {
  std::string kind;  ///< As tc(8) calls it: "mq", "fq_codel", "tbf".
  /// Bytes that wait now, with the headers that they will have on the link. Not what sockets have
  /// not handed down yet, nor what the card's driver has already taken.
  uint64_t queued_bytes = 0;
  /// Packets that did not fit, or that the queue gave up early as some kinds do.
  uint64_t drops = 0;
  /// Times that a limit of the queue's own, such as a rate, held a packet up; kinds without such a
  /// limit leave it at 0 or count marks and drops here.
  uint64_t overlimits = 0;
};

/// What a network device has counted since it was made. All of it grows but `queued_bytes`; it
/// begins anew at 0 when the device, or for `queue` the queue, is replaced by another, and a
/// queue's drops and overlimits do so after 2^32 - 1.
struct NicCounters {
  std::string device;  ///< "eth0"

  uint64_t sent_bytes = 0;  ///< With the link's headers.
  uint64_t received_bytes = 0;
  /// One for each frame on the link, but where large packets are never cut up (veth, loopback).
  uint64_t sent_packets = 0;
  uint64_t received_packets = 0;

  /// Packets lost for want of room or of somebody who wants them: the kernel's tx_dropped, and
  /// rx_dropped with rx_missed_errors. What the queue drops is not among them.
  uint64_t send_drops = 0;
  uint64_t receive_drops = 0;
  /// Packets that were broken, or could not be sent: tx_errors and rx_errors. They tell of cables
  /// and cards, not of congestion.
  uint64_t send_errors = 0;
  uint64_t receive_errors = 0;

  /// nullopt: there is none, as for a device that is down, or that hands on at once ("noqueue").
  std::optional<SendQueueCounters> queue;
};

/// Reads the counters of network devices from the kernel (rtnetlink). Needs no privileges. Not
/// thread safe, but any thread may use it.
class NicCounterReader {
 public:
  /// For the devices of the network namespace that the calling thread is in now.
  /// Errors: kSystemError.
  static Result<std::unique_ptr<NicCounterReader>> Open();

  /// In the order of `devices`; one that does not exist is left out.
  ///
  /// Asks the kernel once for each device and once for all queues of the host, those of other
  /// devices too. Waits for nobody but who changes the network's settings at this time, as both
  /// take the same lock of the kernel's.
  /// Errors: kSystemError; the next call begins afresh.
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
