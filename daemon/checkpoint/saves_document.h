#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/checkpoint/kept_parts.h"

namespace harmonaize::daemon {

/// Returns what is told of the checkpoints of a job in memory, the newest first: step, number of
/// the save, number of ranks, whether all are known to have their parts, and which ranks' parts are
/// here. `parts` may be nullptr: none are here.
nlohmann::json SavesDocument(const KeptParts::ByBuffer* parts);

}  // namespace harmonaize::daemon
