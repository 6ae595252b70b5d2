#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "perf/fabric/laboratory.h"
#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::fabric {

/// One way of traffic: between two NICs, by their own addresses (path -1) or by an explicit path.
struct Way {
  Endpoint from;
  Endpoint to;
  int path = -1;
};

/// Returns ok if a fabric has such a way. Errors: kInvalidArgument for a way from a host to itself,
/// for a path that the fabric does not have, and where no links lead.
Status CheckWay(const Fabric& fabric, const Way& way);

/// A TCP connection between two hosts; both ends are in this process.
struct Connection {
  FileDescriptor sender;
  FileDescriptor receiver;
};

/// Longest time that a connection takes while its way works.
inline constexpr std::chrono::seconds kConnectPatience(5);

/// Connects from one host to another. Errors: kRemoteError, with both addresses, when there is no
/// connection within `patience`.
Result<Connection> Connect(const Laboratory& laboratory, const Way& way,
                           std::chrono::milliseconds patience);

/// Amount to send: a number of bytes or, without it, as much as is possible in a time.
struct Amount {
  std::optional<int64_t> bytes;
  double seconds = 2;
};

struct Transfer {
  int64_t bytes = 0;  ///< All bytes that arrived.
  /// Payload a second, as it arrived. If limited by time, the first fifth is not counted, in which
  /// TCP finds its rate.
  double bytes_per_second = 0;
};

/// Makes one plain transfer, as fast as it goes.
Result<Transfer> Measure(Connection& connection, const Amount& amount);

/// Starts a process that sends over the connection at this rate until it is killed, and returns its
/// number. The process is in the namespace `space`, so it ends with the laboratory.
Result<pid_t> StartFlow(const std::string& space, Connection connection, double bytes_per_second);

}  // namespace harmonaize::fabric
