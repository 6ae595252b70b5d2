#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "src/base/status.h"

namespace harmonaize {

// Access to a document that a daemon sent. Nothing here throws, whatever the document contains: a
// daemon of another version still shows what it can.

using Json = nlohmann::json;

/// Stands for missing values.
inline constexpr char kUnknown[] = "-";

/// Errors: kRemoteError when the text is no JSON object.
Result<Json> ParseDocument(std::string_view text);
/// Returns the document, indented, with a newline at the end.
Result<std::string> IndentJson(std::string_view document);

/// Returns the value of a key, or a null value.
const Json& At(const Json& object, const char* key);
/// Returns the list at a key, or an empty one.
const Json& ListAt(const Json& object, const char* key);
/// Returns a text or a whole number as text that cannot steer the terminal; else kUnknown.
std::string TextOf(const Json& value);
/// Returns TextOf the value of a key.
std::string TextAt(const Json& object, const char* key);
/// Return HumanBytes of a count, or HumanTime or HumanDuration of seconds; else kUnknown.
std::string BytesAt(const Json& object, const char* key);
std::string TimeAt(const Json& object, const char* key);
std::string DurationAt(const Json& object, const char* key);

}  // namespace harmonaize
