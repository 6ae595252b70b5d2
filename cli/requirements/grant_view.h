#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize {

/// Returns what a daemon grants, as it answers in JSON, for people: what holds, and below it what
/// is less than was asked for, with the reasons. Errors: kRemoteError for an answer of another
/// form.
Result<std::string> GrantText(const std::string& answer);

}  // namespace harmonaize
