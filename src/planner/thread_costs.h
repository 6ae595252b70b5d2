#pragma once

#include "src/base/status.h"
#include "src/planner/host_costs.h"

namespace harmonaize {

// Measurements of the costs of signals between threads. All throw std::system_error when a thread
// cannot be started.

/// Measures handoff_ns and yield_ns.
Status MeasureTurns(HostCosts* costs);

/// Measures wake_up_ns: the time until a thread that sleeps on a futex runs again, when one on
/// another processor wakes it. It is the median of many, because the fastest found the processor
/// not asleep yet.
Status MeasureWakeUp(HostCosts* costs);

/// Measures round_trip_ns and wake_ns by a rehearsal of an offloaded operation without data. A
/// thread in the client's role posts a request, rings an eventfd, polls for a while and sleeps on a
/// futex. One in the engine's role wakes up and hands the work to a third, which sleeps as an idle
/// worker does; that one completes it and wakes the first. All three share a processor. Across
/// processors the same takes less if they are awake and several times longer if they are not, and
/// which of the two applies cannot be known. wake_ns is the median of many, because the fastest
/// found the worker not asleep yet. Errors: kSystemError when there is no eventfd to be had.
Status MeasureRoundTrip(HostCosts* costs);

}  // namespace harmonaize
