#pragma once

#include <nlohmann/json.hpp>

#include "cli/json_view.h"

namespace harmonaize {

/// Returns what PyTorch's flight recorder would dump for one rank of a communicator (version 2.10
/// of its form; docs/diagnosis.md says what the fields hold). Both are as in a document of GET
/// /v1/jobs/{job}/flight. The communicator is the only process group, so ranks are its own.
nlohmann::ordered_json FlightRecorderDump(const Json& communicator, const Json& rank);

}  // namespace harmonaize
