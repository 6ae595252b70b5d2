#pragma once

#include "daemon/cluster/messages.h"
#include "src/base/status.h"
#include "src/ipc/unique_id.h"

namespace harmonaize::daemon {

/// More ranks than this in one communicator are a mistake, not a job.
inline constexpr int kMaxRanks = 1 << 20;

/// Whether a rank from `first_rank` on may ask for this place among so many.
Status CheckRanks(int ranks, int rank, int first_rank);

/// The call that makes a rank apply, by ApplyMessage::kind.
const char* WhatOf(int kind);

/// Errors: kInvalidArgument for bytes that no daemon has given out as an id.
Result<UniqueId> IdOf(const ApplyMessage& request);

}  // namespace harmonaize::daemon
