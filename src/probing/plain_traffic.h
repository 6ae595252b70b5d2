#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

// Plain TCP between chosen IPv4 addresses, for measuring a network: whoever probes brings about the
// connections, and either end may be in another process. Functions of their arguments; thread safe.

using ProbeClock = std::chrono::steady_clock;

/// Looked at a few hundred times a second by what takes its time; true ends it early.
using StopFlag = std::atomic<bool>;

/// The share of a timed transfer that does not count: until then TCP finds its rate.
inline constexpr double kProbeWarmUp = 0.5;
/// How long a set of transfers runs unless somebody says otherwise.
inline constexpr double kProbeSeconds = 0.16;
/// What may be asked for.
inline constexpr double kLeastProbeSeconds = 0.05;
inline constexpr double kMostProbeSeconds = 10;

struct TcpListener {
  FileDescriptor fd;  ///< Does not block.
  uint16_t port = 0;  ///< Of the kernel's choice.
};

/// Errors: kSystemError, with the address.
Result<TcpListener> ListenOn(const std::string& address, int backlog);

/// Begins a connection from a local address, whatever route leads there. The socket does not block.
/// Errors: kRemoteError, with both addresses, when it is refused at once; kSystemError.
Result<FileDescriptor> BeginConnect(const std::string& from, const std::string& to, uint16_t port);
/// Waits until it is there. Errors: kRemoteError, with both addresses.
Status FinishConnect(const FileDescriptor& socket, const std::string& from, const std::string& to,
                     ProbeClock::time_point deadline, const StopFlag& stop);

/// Sends over all sockets as much as they take. One that breaks is left.
void SendUntil(const std::vector<int>& sockets, ProbeClock::time_point end, const StopFlag& stop);
/// Receives from all sockets until `end`. By socket: the bytes that came after
/// `counted_from`.
std::vector<int64_t> CountUntil(const std::vector<int>& sockets,
                                ProbeClock::time_point counted_from, ProbeClock::time_point end,
                                const StopFlag& stop);

/// `start` and so many seconds.
ProbeClock::time_point After(ProbeClock::time_point start, double seconds);

}  // namespace harmonaize
