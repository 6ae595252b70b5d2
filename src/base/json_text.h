#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace harmonaize {

// These functions keep nlohmann's writer and reader out of the sources that call them. Both are
// large templates, which a compiler makes anew for each source that uses them.

/// Returns a document as text. The text is one line if `indent` is -1; else each level is indented
/// by so many blanks. Bytes that are not UTF-8 are replaced.
std::string JsonText(const nlohmann::json& document, int indent = -1);
std::string JsonText(const nlohmann::ordered_json& document, int indent = -1);

/// Reads a document. Returns a discarded value for a text that is no JSON. Requires: the caller has
/// checked the depth of a stranger's text (JsonDepth), since the reader calls itself for each
/// level.
nlohmann::json ReadJson(std::string_view text);

}  // namespace harmonaize
