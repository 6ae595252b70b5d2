#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize::transport {

// The kernel decides how fast a TCP connection may send (tcp(7), TCP_CONGESTION), with one
// exception. BBR spaces packets by timers, and a timer costs as much as a few packets. Where the
// way is slow, timers keep queues short, and processors have time. Where software is slower than
// the way, they are pure cost: sending 64 KiB takes twice as long in the laboratory
// (docs/transport.md).

/// Leaves connections to the kernel, except where it would choose BBR and the way is faster than
/// processors can send: these get kUnpacedAlgorithm.
inline constexpr std::string_view kAutomaticCongestionControl = "auto";
/// Leaves all connections to the kernel.
inline constexpr std::string_view kSystemCongestionControl = "system";

/// An algorithm without timers: Linux's own default.
inline constexpr std::string_view kUnpacedAlgorithm = "cubic";
/// Bytes per second from which a way counts as faster than processors can send: 10 Gbit/s.
inline constexpr double kFastBytesPerSecond = 1.25e9;

/// Returns ok if `wish` is one of the two above, or an algorithm that this kernel has or can load.
/// Errors: kInvalidArgument naming those that it has.
Status CheckCongestionControl(const std::string& wish);

/// Returns the algorithm for connections over a way of this rate, as TCP_CONGESTION takes it;
/// empty: the kernel's choice. `system` is the kernel's default; a rate of 0 is not known.
std::string CongestionControlFor(std::string_view wish, double bytes_per_second,
                                 std::string_view system);

/// Returns the kernel's default in this network namespace; empty where it cannot be read.
std::string SystemCongestionControl();

}  // namespace harmonaize::transport
