#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Returns what GET /v1/checkpoints, or GET /v1/jobs/{job}/checkpoints, says, for people. `now` is
/// in seconds since 1970. Errors: kRemoteError for what is no document of it.
Result<std::string> HeldCheckpointsTable(std::string_view document, double now);

}  // namespace harmonaize
