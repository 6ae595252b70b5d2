#pragma once

#include "src/base/status.h"
#include "src/planner/host_costs.h"

namespace harmonaize {

// What it costs that threads tell each other something. All of it throws std::system_error when a
// thread cannot be started.

/// handoff_ns and yield_ns.
Status MeasureTurns(HostCosts* costs);

/// wake_up_ns: how soon a thread that sleeps on a futex is back, when one on another processor
/// wakes it; the median of many, because the fastest found the processor not asleep yet.
Status MeasureWakeUp(HostCosts* costs);

/// round_trip_ns and wake_ns, by a rehearsal of an offloaded operation without data: as a client
/// does it, a thread posts a request, rings an eventfd, looks for a while and sleeps on a futex; as
/// the engine does it, a thread wakes up and hands the work to another that sleeps, as an idle
/// worker does; that one completes it and wakes the first. All three share a processor. Across
/// processors the same takes less where they are awake and several times longer where they are not,
/// and which it will be nobody knows. wake_ns is the median of many, because the fastest found the
/// worker not asleep yet. Errors: kSystemError when there is no eventfd to be had.
Status MeasureRoundTrip(HostCosts* costs);

}  // namespace harmonaize
