#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "daemon/checkpoint/kept_parts.h"
#include "daemon/checkpoint/save_catalogue.h"
#include "daemon/checkpoint/stored_parts.h"

namespace harmonaize::daemon {

/// Returns what is told of the checkpoints of a job in memory and in the provider's store, the
/// newest first: step, number of the save, number of ranks, whether all are known to have their
/// parts, which ranks' parts are here, which others are at other hosts, and whether the store has
/// it. `parts` may be nullptr: none are here.
nlohmann::json SavesDocument(const KeptParts::ByBuffer* parts, const std::vector<HostSaves>& others,
                             const std::vector<StoredSave>& stored);

}  // namespace harmonaize::daemon
