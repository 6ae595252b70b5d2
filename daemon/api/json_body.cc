#include "daemon/api/json_body.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/sources/cloud_dates.h"
#include "src/base/clean_text.h"
#include "src/base/json_depth.h"
#include "src/base/json_text.h"
#include "src/base/names.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Most levels of lists and objects in a body: more than any request has. The reader calls itself
/// for each level.
constexpr int kMostLevels = 16;
constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

/// Reads the end of a time from its point on, as ".25Z". "" stands for a time without a fraction.
std::optional<int64_t> NanosecondsIn(std::string_view text) {
  if (text.empty()) return 0;
  if (text.size() < 3 || !text.ends_with('Z')) return std::nullopt;
  int64_t nanoseconds = 0;
  int64_t unit = kNanosecondsPerSecond / 10;
  for (const char digit : text.substr(1, text.size() - 2)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    nanoseconds += unit * (digit - '0');
    unit /= 10;
  }
  return nanoseconds;
}

}  // namespace

std::string DumpJson(const json& document) {
  return JsonText(document);
}

JsonBody::JsonBody(std::string_view body, std::span<const std::string_view> fields)
    : object_(json::object()) {
  Result<json> parsed = Parse(body, fields);
  if (parsed.ok()) {
    object_ = std::move(*parsed);
  } else {
    status_ = parsed.status();
  }
}

Result<json> JsonBody::Parse(std::string_view body, std::span<const std::string_view> fields) {
  if (JsonDepth(body) > kMostLevels) return InvalidArgument("the body is nested too deeply");
  json object = ReadJson(body);
  if (!object.is_object()) return InvalidArgument("the body is no JSON object");
  for (const auto& [name, value] : object.items()) {
    if (std::find(fields.begin(), fields.end(), name) != fields.end()) continue;
    return InvalidArgument("there is no field '{}'{}", CleanText(name, 64),
                           DidYouMean(name, fields));
  }
  return object;
}

const json* JsonBody::Find(std::string_view field) const {
  if (!status_.ok()) return nullptr;
  const auto found = object_.find(std::string(field));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> JsonBody::Text(std::string_view field, size_t most_bytes) {
  const json* const value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    Fail(InvalidArgument("'{}' is a text", field));
    return std::nullopt;
  }
  const std::string text = value->get<std::string>();
  if (text.size() > most_bytes || CleanText(text, most_bytes) != text) {
    Fail(InvalidArgument("'{}' is a text of one line and at most {} bytes", field, most_bytes));
    return std::nullopt;
  }
  return text;
}

std::optional<double> JsonBody::Number(std::string_view field, double least, double most) {
  const json* const value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || value->get<double>() < least || value->get<double>() > most) {
    Fail(InvalidArgument("'{}' is a number from {:g} to {:g}", field, least, most));
    return std::nullopt;
  }
  return value->get<double>();
}

std::optional<bool> JsonBody::YesNo(std::string_view field) {
  const json* const value = Find(field);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    Fail(InvalidArgument("'{}' is true or false", field));
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<int64_t> JsonBody::Time(std::string_view field) {
  const std::optional<std::string> text = Text(field, 40);
  if (!text.has_value()) return std::nullopt;
  // The fraction, if any, is read apart: dates have none.
  const size_t point = std::min(text->find('.'), text->size());
  const std::string_view rest = std::string_view(*text).substr(point);
  const std::optional<int64_t> seconds =
      ParseIso8601Date(rest.empty() ? *text : text->substr(0, point) + "Z");
  const std::optional<int64_t> nanoseconds = NanosecondsIn(rest);
  if (!seconds.has_value() || !nanoseconds.has_value()) {
    Fail(InvalidArgument("'{}' is a time in UTC, such as 2026-11-26T08:30:00Z", field));
    return std::nullopt;
  }
  return *seconds * kNanosecondsPerSecond + *nanoseconds;
}

bool JsonBody::IsNull(std::string_view field) const {
  if (!status_.ok()) return false;
  const auto found = object_.find(std::string(field));
  return found != object_.end() && found->is_null();
}

std::optional<json> JsonBody::Any(std::string_view field) {
  const json* const value = Find(field);
  return value == nullptr ? std::nullopt : std::optional<json>(*value);
}

void JsonBody::Need(std::string_view field, std::string_view what) {
  if (status_.ok() && Find(field) == nullptr) {
    Fail(InvalidArgument("'{}' is missing: {}", field, what));
  }
}

void JsonBody::Fail(Status why) {
  if (status_.ok()) status_ = std::move(why);
}

}  // namespace harmonaize::daemon
