#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "src/base/status.h"

namespace harmonaize {

// Looking into a document that a daemon sent. Nothing here throws, whatever it holds: a daemon of
// another version still shows what it can.

using Json = nlohmann::json;

/// Stands for what is not there.
inline constexpr char kUnknown[] = "-";

/// kRemoteError when the text is no JSON object.
Result<Json> ParseDocument(std::string_view text);
/// The same document, indented, with a newline at the end.
Result<std::string> IndentJson(std::string_view document);

/// The value of a key, or a null value.
const Json& At(const Json& object, const char* key);
/// The list at a key, or an empty one.
const Json& ListAt(const Json& object, const char* key);
/// A text or a whole number as text that cannot steer the terminal; else kUnknown.
std::string TextOf(const Json& value);
/// TextOf the value of a key.
std::string TextAt(const Json& object, const char* key);
/// HumanBytes of a count, or HumanTime or HumanDuration of seconds; else kUnknown.
std::string BytesAt(const Json& object, const char* key);
std::string TimeAt(const Json& object, const char* key);
std::string DurationAt(const Json& object, const char* key);

}  // namespace harmonaize
