#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Returns a table of what is announced for a host, with the answers of jobs under it. Errors:
/// kRemoteError for a text that is no JSON object.
Result<std::string> MaintenanceTable(std::string_view document);

}  // namespace harmonaize
