#pragma once

#include <vector>

#include "daemon/checkpoint/kept_parts.h"
#include "daemon/cluster/messages/checkpoint.h"

namespace harmonaize::daemon {

/// Returns the saves of a job of which this host has parts, the one that was saved last first.
/// `parts` are the job's buffers.
std::vector<HeldSave> HeldSaves(const KeptParts::ByBuffer& parts);

}  // namespace harmonaize::daemon
