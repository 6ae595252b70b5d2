#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Shows the daemon's status document as a table for people:
///
///     {"daemon": {"version", "pid", "uptime_seconds", "socket", "workers"},
///      "tenants": [{"uid", "name", "sessions", "regions", "region_bytes", "operations", "bytes",
///                   "communicators": [{"id", "ranks", "operations", "bytes", "inline_operations",
///                                      "inline_bytes", "state", "failure",
///                                      "waiting": [{"operation", "for_seconds",
///                                                   "missing_ranks": [..]}],
///                                      "waiting_not_listed"}]}]}
///
/// and what PrintTuning shows.
///
/// Operations are shown when they have waited for a second, the first few of a communicator.
/// Missing fields are shown as "-", and unknown ones are ignored, so that a daemon of another
/// version still shows what it can. Errors: kRemoteError when it is no JSON object.
Result<std::string> StatusTable(std::string_view document);

}  // namespace harmonaize
