#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// Deepest nesting of a document that is read. A Kubernetes node has 10 levels, the documents of
/// the clouds have 3.
inline constexpr int kMostJsonDepth = 32;

/// Reads one JSON document. The caller bounds the text's length. Errors: kRemoteError for a text
/// that is no JSON, is not UTF-8, or nests deeper than kMostJsonDepth.
Result<nlohmann::json> ParseBoundedJson(std::string_view text);

/// Returns the text that `object` has under this name; none where it has none, or something else,
/// or is no object.
std::optional<std::string> TextIn(const nlohmann::json& object, std::string_view name);

/// Returns the list that `object` has under this name, or nullptr likewise.
const nlohmann::json* ListIn(const nlohmann::json& object, std::string_view name);

}  // namespace harmonaize::daemon
