#pragma once

#include <cstddef>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// Most ranks of one communicator. More are a mistake, not a job.
inline constexpr int kMaxRanks = 1 << 20;

/// Most ranks of one communicator on one host. Schedules on a host grow with the square of their
/// number: an all-to-all among so many is 262,144 copies, which take 40 MB, and 2 ms of the
/// engine's thread each time. No host has so many accelerators.
inline constexpr int kMaxRanksOnHost = 512;

/// Whether there can be such a communicator, and a rank from `first_rank` on may ask for this place
/// in it.
Status CheckRanks(int ranks, int rank, int first_rank);

/// Whether one host can have so many ranks of a communicator.
Status CheckRanksOnHost(size_t ranks);

}  // namespace harmonaize::daemon
