#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace harmonaize {

/// Returns a time as RFC 3339 has it, in UTC with microseconds: "2026-11-26T08:30:00.123456Z".
std::string TimeText(int64_t unix_ns);
/// Reads such a text; nullopt for any other.
std::optional<int64_t> UnixNanosecondsOf(const std::string& text);

}  // namespace harmonaize
