#include "src/base/json_text.h"

#include <nlohmann/json.hpp>

namespace harmonaize {
namespace {

template <typename Json>
std::string Write(const Json& document, int indent) {
  return document.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

std::string JsonText(const nlohmann::json& document, int indent) {
  return Write(document, indent);
}

std::string JsonText(const nlohmann::ordered_json& document, int indent) {
  return Write(document, indent);
}

nlohmann::json ReadJson(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace harmonaize
