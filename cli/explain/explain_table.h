#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Shows the daemon's explanation as tables for people:
///
///     {"calibration": {"measured_at", "state_path", "costs": {..}, "fingerprint": {..},
///                      "sure", "doubts": [..], "rounds", "rounds_agreed",
///                      "load": {"heavy", "lost_fraction", "running_threads"},
///                      "again": {"allowed", "wanted", "tries", "next_in_seconds"}},
///      "ranks", "processors", "workers",
///      "inline": {"enabled", "possible", "most_ranks", "stream_bytes", "registered_limits_by",
///                 "heap_limits_by"},
///      "collectives": [{"name", "registered": PATHS, "heap": PATHS}]}
///     PATHS: {"limit_bytes",
///             "predictions": [{"bytes", "inline_seconds", "offload_seconds"}]}
///
/// Missing fields are shown as "-". Errors: kRemoteError when it is no JSON object.
Result<std::string> ExplainTable(std::string_view document);

/// Returns the document without all other collectives than `name`.
Result<std::string> SelectCollective(std::string_view document, std::string_view name);

}  // namespace harmonaize
