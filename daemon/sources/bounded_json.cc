#include "daemon/sources/bounded_json.h"

#include <nlohmann/json.hpp>

#include "src/base/json_depth.h"
#include "src/base/json_text.h"

namespace harmonaize::daemon {
namespace {

using nlohmann::json;

const json* ValueIn(const json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(name));
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

Result<json> ParseBoundedJson(std::string_view text) {
  if (JsonDepth(text) > kMostJsonDepth) {
    return RemoteError("the document nests deeper than {} levels", kMostJsonDepth);
  }
  json document = ReadJson(text);
  if (document.is_discarded()) return RemoteError("the document is no JSON");
  return document;
}

std::optional<std::string> TextIn(const json& object, std::string_view name) {
  const json* const value = ValueIn(object, name);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

const json* ListIn(const json& object, std::string_view name) {
  const json* const value = ValueIn(object, name);
  return value != nullptr && value->is_array() ? value : nullptr;
}

}  // namespace harmonaize::daemon
