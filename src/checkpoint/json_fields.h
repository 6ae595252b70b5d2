#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "src/base/status.h"

namespace harmonaize::checkpoint {

/// Deepest nesting of a document of this module. Readers call themselves for each level.
inline constexpr int kMostJsonDepth = 8;

/// Parses a stranger's document, which has to be an object. Errors: kInvalidArgument, which names
/// the document as `what`.
Result<nlohmann::json> ParseObject(std::string_view text, std::string_view what);

/// Reads fields of an object that a stranger wrote. The first field that is missing or wrong makes
/// status() an error, and every call from then on returns a value that means nothing.
class JsonFields {
 public:
  /// Requires: `object` outlives this object. `what` names the object in errors.
  JsonFields(const nlohmann::json& object, std::string_view what);

  /// Returns a whole number from `least` to `most`.
  uint64_t Count(const char* key, uint64_t least, uint64_t most);
  /// Returns a number that is not negative, and finite.
  double Amount(const char* key);
  bool Flag(const char* key);
  /// Returns a text of at most `most_bytes` bytes without NUL.
  std::string Text(const char* key, size_t most_bytes);
  /// Returns a number of 64 bits that is written as 16 hexadecimal digits in lower case.
  uint64_t Digits(const char* key);
  /// Returns an object, or an array of at most `most` values; else an empty one.
  const nlohmann::json& Object(const char* key);
  const nlohmann::json& Array(const char* key, size_t most);
  /// Returns whether there is such a field, whatever it is.
  bool Has(const char* key) const;

  const Status& status() const { return status_; }

 private:
  const nlohmann::json* Find(const char* key, const char* wanted,
                             bool (*is_wanted)(const nlohmann::json&));
  void Refuse(const char* key, std::string_view wanted);

  const nlohmann::json* const object_;
  const std::string what_;
  Status status_;
};

/// Returns a number as JsonFields::Digits reads it.
std::string DigitsOf(uint64_t number);
/// Reads what DigitsOf returns; false for any other text.
bool ParseDigits(std::string_view text, uint64_t* number);

}  // namespace harmonaize::checkpoint
