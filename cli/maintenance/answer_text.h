#pragma once

#include <string>

#include "cli/json_view.h"

namespace harmonaize {

/// Returns what a job has answered to an announcement, as "asks for time until ... (acknowledged
/// ...)": the last answer first, and the one before it in brackets. A job that has ended is said to
/// have. `answer` is an Answer of the HTTP API.
std::string AnswerText(const Json& answer);

}  // namespace harmonaize
