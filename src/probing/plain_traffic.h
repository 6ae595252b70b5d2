#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

// Plain TCP between chosen IPv4 addresses, for measuring a network. The caller sets up the
// connections, and either end may be in another process. Thread: any.

using ProbeClock = std::chrono::steady_clock;

/// Ends a long operation early when true; checked a few hundred times a second.
using StopFlag = std::atomic<bool>;

/// Fraction of a timed transfer that is not counted: until then TCP finds its rate.
inline constexpr double kProbeWarmUp = 0.5;
/// Default seconds that a set of transfers runs.
inline constexpr double kProbeSeconds = 0.16;
/// Least and most seconds that may be asked for.
inline constexpr double kLeastProbeSeconds = 0.05;
inline constexpr double kMostProbeSeconds = 10;

struct TcpListener {
  FileDescriptor fd;  ///< Does not block.
  uint16_t port = 0;  ///< Chosen by the kernel.
};

/// Errors: kSystemError, with the address.
Result<TcpListener> ListenOn(const std::string& address, int backlog);

/// Begins a connection from a local address, whichever route leads there. The socket does not
/// block. Errors: kRemoteError, with both addresses, when it is refused at once; kSystemError.
Result<FileDescriptor> BeginConnect(const std::string& from, const std::string& to, uint16_t port);
/// Waits until the connection is established. Errors: kRemoteError, with both addresses.
Status FinishConnect(const FileDescriptor& socket, const std::string& from, const std::string& to,
                     ProbeClock::time_point deadline, const StopFlag& stop);

/// Sends over all sockets as much as they take. A connection that breaks is skipped from then on.
void SendUntil(const std::vector<int>& sockets, ProbeClock::time_point end, const StopFlag& stop);
/// Receives from all sockets until `end`. Returns, by socket, the bytes that came after
/// `counted_from`.
std::vector<int64_t> CountUntil(const std::vector<int>& sockets,
                                ProbeClock::time_point counted_from, ProbeClock::time_point end,
                                const StopFlag& stop);

/// Returns the time `seconds` after `start`.
ProbeClock::time_point After(ProbeClock::time_point start, double seconds);

}  // namespace harmonaize
