#pragma once

#include <string>
#include <string_view>

#include "cli/json_view.h"
#include "src/base/status.h"

namespace harmonaize {

/// Shows a document of GET /v1/stuck for people: a row for each communicator with an operation that
/// does not end, and "nothing hangs" where there is none. Errors: kRemoteError.
Result<std::string> StuckTable(std::string_view document);

}  // namespace harmonaize
