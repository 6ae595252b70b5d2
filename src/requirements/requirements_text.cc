// RequirementsText and RequirementValueText, which requirements.h declares.

#include <fmt/format.h>

#include <cmath>

#include "src/base/measure.h"
#include "src/base/time_text.h"
#include "src/base/toml_text.h"
#include "src/requirements/requirements.h"

namespace harmonaize {
namespace {

std::string TimeAsToml(double seconds) {
  return TimeText(std::llround(seconds * 1e9));
}

std::string ListAsToml(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + TomlText(text);
  return "[" + list + "]";
}

/// Writes one number of a value of this kind.
std::string NumberAsToml(RequirementKind kind, double number) {
  switch (kind) {
    case RequirementKind::kDuration: return TomlText(FormatMeasure(Measure::kDuration, number));
    case RequirementKind::kRate: return TomlText(FormatMeasure(Measure::kRate, number));
    case RequirementKind::kSize:
    case RequirementKind::kSizeRange: return TomlText(FormatMeasure(Measure::kSize, number));
    case RequirementKind::kCountRange: return fmt::format("{:.0f}", number);
    case RequirementKind::kTime: return TimeAsToml(number);
    default: return fmt::format("{}", number);
  }
}

void AppendList(const std::vector<RequirementTable>& tables, std::span<const RequirementKey> keys,
                std::string_view list, std::string* text) {
  for (const RequirementTable& table : tables) {
    *text += fmt::format("{}[[{}]]\n", text->empty() ? "" : "\n", list);
    for (const RequirementKey& key : keys) {
      const auto found = table.find(key.name);
      if (found == table.end()) continue;
      *text += fmt::format("{} = {}\n", key.name, RequirementValueText(key, found->second));
    }
  }
}

}  // namespace

std::string RequirementValueText(const RequirementKey& key, const RequirementValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return TomlText(*text);
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) return ListAsToml(*list);
  if (const bool* yes = std::get_if<bool>(&value)) return *yes ? "true" : "false";
  if (const int64_t* count = std::get_if<int64_t>(&value)) return fmt::format("{}", *count);
  if (const double* number = std::get_if<double>(&value)) return NumberAsToml(key.kind, *number);
  const ValueRange& range = std::get<ValueRange>(value);
  return fmt::format("[{}, {}]", NumberAsToml(key.kind, range.least),
                     NumberAsToml(key.kind, range.most));
}

std::string RequirementsText(const Requirements& requirements) {
  std::string text;
  std::string_view table;
  for (const RequirementKey& key : RequirementKeys()) {
    const auto found = requirements.values.find(key.name);
    if (found == requirements.values.end()) continue;
    const std::string_view of_key = key.name.substr(0, key.name.find('.'));
    if (of_key != table) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", of_key);
    table = of_key;
    text += fmt::format("{} = {}\n", key.name.substr(table.size() + 1),
                        RequirementValueText(key, found->second));
  }
  AppendList(requirements.overrides, OverrideKeys(), kOverrideList, &text);
  AppendList(requirements.launches, LaunchKeys(), kLaunchList, &text);
  return text;
}

}  // namespace harmonaize
