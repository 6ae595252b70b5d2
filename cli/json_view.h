#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "src/base/status.h"

namespace harmonaize {

// Access to a document that a daemon sent. Nothing here throws, whatever the document contains: a
// daemon of another version still shows what it can.

using Json = nlohmann::json;

/// Stands for missing values.
inline constexpr char kMissing[] = "-";

/// Errors: kRemoteError when the text is no JSON object.
Result<Json> ParseDocument(std::string_view text);
/// Returns the document, indented, with a newline at the end.
Result<std::string> IndentJson(std::string_view document);

/// Returns the value of a key, or a null value.
const Json& At(const Json& object, const char* key);
/// Returns the list at a key, or an empty one.
const Json& ListAt(const Json& object, const char* key);
/// Returns a text or a whole number as text that cannot steer the terminal; else kMissing.
std::string TextOf(const Json& value);
/// Returns TextOf the value of a key.
std::string TextAt(const Json& object, const char* key);
/// Return HumanBytes of a count, or HumanTime or HumanDuration of seconds; else kMissing.
std::string BytesAt(const Json& object, const char* key);
std::string TimeAt(const Json& object, const char* key);
std::string DurationAt(const Json& object, const char* key);
/// Returns a part, from 0 to 1, as whole percent; else kMissing.
std::string PercentAt(const Json& object, const char* key);
/// Returns a moment that a document gives as "2026-11-26T08:30:00.123456Z", without the part of a
/// second, or with its milliseconds; any other text as TextAt does.
std::string MomentAt(const Json& object, const char* key, bool with_milliseconds = false);
/// Returns a whole number that is not negative; 0 for anything else.
uint64_t CountAt(const Json& object, const char* key);
/// Returns whether the value of a key is true.
bool YesAt(const Json& object, const char* key);

}  // namespace harmonaize
