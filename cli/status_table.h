#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// The daemon's status document as a table for people:
///
///     {"daemon": {"version", "pid", "uptime_seconds", "socket", "workers"},
///      "tenants": [{"uid", "name", "sessions", "regions", "region_bytes", "operations", "bytes",
///                   "communicators": [{"id", "ranks", "operations", "bytes", "state", "failure",
///                                      "waiting": [{"operation", "for_seconds",
///                                                   "missing_ranks": [..]}]}]}]}
///
/// Operations show when they have waited for a second, the first few of a communicator. What is
/// missing from the document is shown as "-", and what is not known is left out, so that a
/// daemon of another version still shows what it can. kRemoteError when it is no JSON object.
Result<std::string> StatusTable(std::string_view document);

/// The same document, indented, with a newline at the end.
Result<std::string> IndentJson(std::string_view document);

/// "0 B", "1023 B", "1.5 KiB", "20 GiB": three digits at most, powers of 1024.
std::string HumanBytes(uint64_t bytes);
/// "0 s", "59 s", "2 min 3 s", "5 h 7 min", "3 d 4 h".
std::string HumanDuration(double seconds);

}  // namespace harmonaize
