#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Returns what GET /v1/jobs/{job}/checkpoints/advice says, for people. Errors: kRemoteError for
/// what is no document of it.
Result<std::string> CheckpointAdviceTable(std::string_view document);

}  // namespace harmonaize
