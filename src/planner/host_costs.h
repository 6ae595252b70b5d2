#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// What the primitives cost of which collectives on one host are made, measured on this host. Times
/// are in nanoseconds; rates are of one thread, in bytes per second.
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
  /// The same sum of buffers that exceed the last-level cache, with non-temporal stores.
  double stream_bytes_per_second = 0;
  /// From a request until its poster goes on, by way of two sleeping threads (see
  /// MeasureRoundTrip): what an offloaded operation costs before any data moves.
  double round_trip_ns = 0;
  /// What it costs a thread to wake one that sleeps on a futex, on the same processor.
  double wake_ns = 0;
  /// From then until the one woken goes on, on another processor that had nothing else to do.
  double wake_up_ns = 0;
};

/// The names under which the costs are stored and shown; the unit is the name's end.
struct HostCostField {
  std::string_view name;
  double HostCosts::*value;
};
inline constexpr std::array kHostCostFields = {
    HostCostField{"handoff_ns", &HostCosts::handoff_ns},
    HostCostField{"yield_ns", &HostCosts::yield_ns},
    HostCostField{"copy_bytes_per_second", &HostCosts::copy_bytes_per_second},
    HostCostField{"fetch_bytes_per_second", &HostCosts::fetch_bytes_per_second},
    HostCostField{"reduce_bytes_per_second", &HostCosts::reduce_bytes_per_second},
    HostCostField{"stream_bytes_per_second", &HostCosts::stream_bytes_per_second},
    HostCostField{"round_trip_ns", &HostCosts::round_trip_ns},
    HostCostField{"wake_ns", &HostCosts::wake_ns},
    HostCostField{"wake_up_ns", &HostCosts::wake_up_ns},
};

/// Whether every cost is a positive, finite number: nothing else can be reckoned with.
bool Plausible(const HostCosts& costs);

/// Measures all of them, with threads of its own, in less than 100 ms on an idle host. Each is the
/// best of several short tries, because other programs can only slow a try down. Uses twice
/// `last_level_bytes` of memory meanwhile, 96 MiB at most.
/// Errors: kSystemError when the threads, or the memory, are not to be had.
Result<HostCosts> MeasureHostCosts(size_t last_level_bytes);

}  // namespace harmonaize
