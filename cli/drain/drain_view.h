#pragma once

#include <string>

#include "cli/json_view.h"

namespace harmonaize {

/// Returns one line of what a drain waits for: "waiting for 2 jobs with 3 communicators: ...".
std::string DrainProgress(const Json& drain);
/// Returns a drain in words, with a table of the jobs that it waits for.
std::string DrainText(const Json& drain);

}  // namespace harmonaize
