#pragma once

#include "daemon/cluster/messages/formation.h"
#include "src/base/status.h"
#include "src/ipc/unique_id.h"

namespace harmonaize::daemon {

/// More ranks than this in one communicator are a mistake, not a job.
inline constexpr int kMaxRanks = 1 << 20;

/// Whether a rank from `first_rank` on may ask for this place among so many.
/// Ranks of one communicator on one host. Schedules on a host grow with the square of their number:
/// an all-to-all among so many is 262,144 copies, which take 40 MB, and 2 ms of the engine's thread
/// each time. No host has so many accelerators.
inline constexpr int kMaxRanksOnHost = 512;
Status CheckRanksOnHost(size_t ranks);

Status CheckRanks(int ranks, int rank, int first_rank);

/// The call that makes a rank apply, by its kind.
const char* WhatOf(FormationKind kind);

/// Errors: kInvalidArgument for bytes that no daemon has given out as an id.
Result<UniqueId> IdOf(const ApplyMessage& request);

}  // namespace harmonaize::daemon
