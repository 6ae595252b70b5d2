#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace harmonaize {

// JSON's writer and reader are large templates, which compilers would make anew for each source
// that calls them.

/// Returns a document as text: in one line, or with each level indented by so many blanks. What is
/// no UTF-8 in it is replaced.
std::string JsonText(const nlohmann::json& document, int indent = -1);
std::string JsonText(const nlohmann::ordered_json& document, int indent = -1);

/// Reads a document. Returns a discarded value for what is no JSON. Of texts that strangers write
/// JsonDepth is to be known first.
nlohmann::json ReadJson(std::string_view text);

}  // namespace harmonaize
