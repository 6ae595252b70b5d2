#include "daemon/api/json_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "src/base/clean_text.h"
#include "src/base/names.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

/// Most levels of lists and objects in a body: more than any request has. The reader calls itself
/// for each level.
constexpr int kMostLevels = 16;

bool IsShallow(std::string_view body) {
  int levels = 0;
  bool in_text = false;
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (in_text && c == '\\') ++i;
    if (c == '"') in_text = !in_text;
    if (in_text) continue;
    if ((c == '[' || c == '{') && ++levels > kMostLevels) return false;
    if (c == ']' || c == '}') --levels;
  }
  return true;
}

}  // namespace

std::string DumpJson(const json& document) {
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
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
  if (!IsShallow(body)) return InvalidArgument("the body is nested too deeply");
  json object = json::parse(body, nullptr, /*allow_exceptions=*/false);
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
  tm parts{};
  const char* const end = strptime(text->c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  double fraction = 0;
  const char* rest = end;
  if (rest != nullptr && *rest == '.') {
    double unit = 0.1;
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest, unit /= 10) fraction += unit * (*rest - '0');
  }
  if (rest == nullptr || std::string_view(rest) != "Z") {
    Fail(InvalidArgument("'{}' is a time in UTC, such as 2026-11-26T08:30:00Z", field));
    return std::nullopt;
  }
  return int64_t{timegm(&parts)} * 1'000'000'000 + static_cast<int64_t>(fraction * 1e9);
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
