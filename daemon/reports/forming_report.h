#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

#include "daemon/formation/formation.h"

namespace harmonaize::daemon {

/// Describes a communicator that forms and waits for ranks: the call, how many ranks it will have,
/// who is missing, and for how long the first one has waited. It names ranks alone, so that a
/// tenant may read it. Thread: engine.
nlohmann::json DescribeForming(const Formation& formation, uint64_t now_ns);

/// Describes it in the form of DescribeVerdict, for one that has waited for long. What forms has no
/// id yet: `communicator` is null. Thread: engine.
nlohmann::json DescribeFormingVerdict(const Formation& formation, uint64_t now_ns);

}  // namespace harmonaize::daemon
