#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Returns a table of "promises", the newest last, and one of those of "offers" that were agreed
/// on, the newest first. Errors: kRemoteError for a text that is no JSON object.
Result<std::string> PromiseTable(std::string_view document);

}  // namespace harmonaize
