#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize::transport {

// How a TCP connection finds out how fast it may send is the kernel's affair (tcp(7),
// TCP_CONGESTION), but for one thing. BBR spaces packets by timers, and a timer costs as much as a
// few packets. Where the way is slow they keep queues short, and processors have nothing better to
// do; where software is slower than the way they are all cost: sending 64 KiB takes twice as long
// in the laboratory (docs/transport.md).

/// Leaves connections to the kernel, but for those where it would choose BBR and the way is faster
/// than processors send: kUnpacedAlgorithm then.
inline constexpr std::string_view kAutomaticCongestionControl = "auto";
/// Leaves all connections to the kernel.
inline constexpr std::string_view kSystemCongestionControl = "system";

/// What has no timers, and Linux's own default.
inline constexpr std::string_view kUnpacedAlgorithm = "cubic";
/// From here on a way counts as faster than processors send: 10 Gbit/s.
inline constexpr double kFastBytesPerSecond = 1.25e9;

/// Whether `wish` is one of the two above, or an algorithm that this kernel has or can load.
/// Errors: kInvalidArgument naming those that it has.
Status CheckCongestionControl(const std::string& wish);

/// The algorithm that connections over a way of such a rate are to be given, as TCP_CONGESTION
/// takes it; empty: none. `system` is the kernel's default; a rate of 0 is not known.
std::string CongestionControlFor(std::string_view wish, double bytes_per_second,
                                 std::string_view system);

/// The kernel's default in this network namespace; empty where it cannot be read.
std::string SystemCongestionControl();

}  // namespace harmonaize::transport
