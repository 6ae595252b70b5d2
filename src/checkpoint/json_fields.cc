#include "src/checkpoint/json_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "src/base/json_depth.h"
#include "src/base/json_text.h"

namespace harmonaize::checkpoint {

using nlohmann::json;

Result<json> ParseObject(std::string_view text, std::string_view what) {
  if (JsonDepth(text) > kMostJsonDepth) return InvalidArgument("{} is nested too deeply", what);
  json document = ReadJson(text);
  if (!document.is_object()) return InvalidArgument("{} is no JSON object", what);
  return document;
}

JsonFields::JsonFields(const json& object, std::string_view what) : object_(&object), what_(what) {
  if (!object.is_object()) status_ = InvalidArgument("{} is no object", what);
}

const json* JsonFields::Find(const char* key, const char* wanted, bool (*is_wanted)(const json&)) {
  if (!status_.ok()) return nullptr;
  const auto found = object_->find(key);
  if (found != object_->end() && is_wanted(*found)) return &*found;
  Refuse(key, wanted);
  return nullptr;
}

void JsonFields::Refuse(const char* key, std::string_view wanted) {
  if (status_.ok()) status_ = InvalidArgument("'{}' of {} is not {}", key, what_, wanted);
}

uint64_t JsonFields::Count(const char* key, uint64_t least, uint64_t most) {
  const json* const value =
      Find(key, "a whole number", [](const json& one) { return one.is_number_unsigned(); });
  if (value == nullptr) return least;
  const auto number = value->get<uint64_t>();
  if (number >= least && number <= most) return number;
  Refuse(key, fmt::format("from {} to {}", least, most));
  return least;
}

double JsonFields::Amount(const char* key) {
  const json* const value = Find(key, "a number", [](const json& one) { return one.is_number(); });
  if (value == nullptr) return 0;
  const auto number = value->get<double>();
  if (std::isfinite(number) && number >= 0) return number;
  Refuse(key, "a finite number that is not negative");
  return 0;
}

bool JsonFields::Flag(const char* key) {
  const json* const value =
      Find(key, "true or false", [](const json& one) { return one.is_boolean(); });
  return value != nullptr && value->get<bool>();
}

std::string JsonFields::Text(const char* key, size_t most_bytes) {
  const json* const value = Find(key, "a text", [](const json& one) { return one.is_string(); });
  if (value == nullptr) return {};
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() <= most_bytes && text.find('\0') == std::string::npos) return text;
  Refuse(key, fmt::format("a text of at most {} bytes without NUL", most_bytes));
  return {};
}

uint64_t JsonFields::Digits(const char* key) {
  uint64_t number = 0;
  const std::string text = Text(key, 16);
  if (status_.ok() && !ParseDigits(text, &number)) Refuse(key, "a number of 16 hexadecimal digits");
  return number;
}

const json& JsonFields::Object(const char* key) {
  static const json kNone = json::object();
  const json* const value = Find(key, "an object", [](const json& one) { return one.is_object(); });
  return value != nullptr ? *value : kNone;
}

const json& JsonFields::Array(const char* key, size_t most) {
  static const json kNone = json::array();
  const json* const value = Find(key, "an array", [](const json& one) { return one.is_array(); });
  if (value == nullptr) return kNone;
  if (value->size() <= most) return *value;
  Refuse(key, fmt::format("an array of at most {} values", most));
  return kNone;
}

bool JsonFields::Has(const char* key) const {
  return object_->is_object() && object_->contains(key);
}

std::string DigitsOf(uint64_t number) {
  return fmt::format("{:016x}", number);
}

bool ParseDigits(std::string_view text, uint64_t* number) {
  if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return false;
  }
  std::from_chars(text.data(), text.data() + text.size(), *number, 16);
  return true;
}

}  // namespace harmonaize::checkpoint
