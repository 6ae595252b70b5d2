#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace harmonaize::daemon {

// Reads a date, in the one form that a cloud writes it in, as seconds since 1970. None stands for
// any other text, for days and times that do not exist, and for years before 1970 or after 9999.

/// Reads "Mon, 19 Sep 2016 18:29:47 GMT" (RFC 1123). The weekday must be that of the date.
std::optional<int64_t> ParseRfc1123Date(std::string_view text);

/// Reads "21 Jan 2019 09:00:43 GMT", as AWS writes the times of maintenance.
std::optional<int64_t> ParseAwsMaintenanceDate(std::string_view text);

/// Reads "2017-09-18T08:22:00Z": ISO 8601 in UTC, with whole seconds.
std::optional<int64_t> ParseIso8601Date(std::string_view text);

}  // namespace harmonaize::daemon
