#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// The target of a request, decoded. All texts are clean (CleanText).
struct HttpTarget {
  std::vector<std::string> path;             ///< The segments; none for "/".
  std::map<std::string, std::string> query;  ///< The parameters, by name.
};

/// The longest target that is read, in bytes. Paths and cursors of this API take a few hundred.
inline constexpr size_t kMostTargetBytes = 4096;

/// Decodes a target such as "/v1/jobs/a%20b?limit=5". A segment may hold a slash that was encoded.
/// In the query a plus sign stands for a space, as in forms. Returns kInvalidArgument for a target
/// that does not begin with "/", for empty segments, "." and "..", for text that is not clean
/// UTF-8, and for a parameter without a name or with one that comes twice.
Result<HttpTarget> ParseHttpTarget(std::string_view target);

/// Returns the segments as a path, with everything percent-encoded that is not a letter, a digit or
/// one of "-._~".
std::string EncodeHttpPath(const std::vector<std::string>& path);

/// Returns the text of a query's name or value, percent-encoded likewise.
std::string PercentEncode(std::string_view text);

}  // namespace harmonaize::daemon
