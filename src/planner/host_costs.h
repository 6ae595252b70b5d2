#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Measured cost, on this host, of the primitives that single-host collectives are built from.
/// Times are in nanoseconds. Rates are of one thread, in bytes per second.
struct HostCosts {
  /// A cache line that one thread writes is seen by a thread on another processor.
  double handoff_ns = 0;
  /// A thread gives way, and one that waits on the same processor goes on.
  double yield_ns = 0;
  /// Bytes copied from warm memory to a shared slot that another processor has read before.
  double copy_bytes_per_second = 0;
  /// Bytes copied out of a shared slot that another processor has just written.
  double fetch_bytes_per_second = 0;
  /// Bytes read and written by a float32 sum in cache of two inputs, one of them such a slot.
  double reduce_bytes_per_second = 0;
  /// Bytes read and written by such a sum of buffers that exceed the last-level cache, with
  /// non-temporal stores.
  double stream_bytes_per_second = 0;
  /// From a request until its poster goes on, by way of two sleeping threads (see
  /// MeasureRoundTrip): what an offloaded operation costs before any data moves.
  double round_trip_ns = 0;
  /// A thread wakes another one that sleeps on a futex, on the same processor.
  double wake_ns = 0;
  /// From then until the one woken goes on, on another processor that had nothing else to do.
  double wake_up_ns = 0;
};

/// Describes one cost: the name under which it is stored and shown, which ends in its unit, and the
/// values that a host can have. A measurement outside of these bounds tells of other programs or of
/// the clock, not of the host.
struct HostCostField {
  std::string_view name;
  double HostCosts::*value;
  double least;
  double most;
  /// The value used until the host was measured well: that of a virtual machine on a current
  /// server.
  double typical;
};

// Bounds of times, in nanoseconds. The least values are what a few instructions, or the kernel's
// entry and exit, take at any clock rate. The most values are above what slow virtual machines and
// sandboxes of system calls take, and below what a try takes in which another program had the
// processor for a millisecond, about the shortest stint that the kernel's scheduler gives it.
// Bounds of rates, in bytes per second. The least is below any memory of the last twenty years, and
// leaves room for builds with sanitizers. The most is above any cache: only a clock that stood
// still shows more.
inline constexpr double kLeastHostRate = 20e6;
inline constexpr double kMostHostRate = 2e12;
inline constexpr std::array kHostCostFields = {
    // Two threads of one core take 10 ns, and sockets far apart 1 us; on a single processor a
    // handoff is a yield. A try has 40 handoffs.
    HostCostField{"handoff_ns", &HostCosts::handoff_ns, 1, 10'000, 150},
    // A try has 6 yields.
    HostCostField{"yield_ns", &HostCosts::yield_ns, 20, 20'000, 1'000},
    HostCostField{"copy_bytes_per_second", &HostCosts::copy_bytes_per_second, kLeastHostRate,
                  kMostHostRate, 20e9},
    HostCostField{"fetch_bytes_per_second", &HostCosts::fetch_bytes_per_second, kLeastHostRate,
                  kMostHostRate, 15e9},
    HostCostField{"reduce_bytes_per_second", &HostCosts::reduce_bytes_per_second, kLeastHostRate,
                  kMostHostRate, 25e9},
    HostCostField{"stream_bytes_per_second", &HostCosts::stream_bytes_per_second, kLeastHostRate,
                  kMostHostRate, 15e9},
    // Two wake-ups and six system calls.
    HostCostField{"round_trip_ns", &HostCosts::round_trip_ns, 200, 500'000, 10'000},
    HostCostField{"wake_ns", &HostCosts::wake_ns, 20, 100'000, 1'300},
    // A processor in a deep sleep state needs a few hundred microseconds.
    HostCostField{"wake_up_ns", &HostCosts::wake_up_ns, 50, 900'000, 15'000},
};

/// Returns whether a host can have this cost.
bool Plausible(const HostCostField& field, double value);
/// Returns whether every cost is Plausible.
bool Plausible(const HostCosts& costs);

/// Returns the typical costs of kHostCostFields.
HostCosts TypicalCosts();

/// Measures all costs once, with threads of its own, in less than 100 ms on an idle host. Most
/// costs are the best of several short tries, because other programs can only slow a try down. The
/// result need not be Plausible. Uses twice `last_level_bytes` of memory meanwhile, 96 MiB at most.
/// `go_on` is asked between the primitives, which take 30 ms at most on an idle host.
/// Errors: kSystemError if there are no threads or no memory, kInProgress if `go_on` said no.
Result<HostCosts> MeasureHostCosts(size_t last_level_bytes, const std::function<bool()>& go_on);

}  // namespace harmonaize
