#include "cli/requirements/requirements_table.h"

#include <fmt/format.h>

#include <functional>

#include <nlohmann/json.hpp>

#include "cli/text_table.h"
#include "src/base/json_text.h"
#include "src/base/measure.h"
#include "src/base/toml_reader.h"

namespace harmonaize {
namespace {

/// Calls `use` with each value that is said, its key, and its full name.
void ForEachValue(const Requirements& requirements,
                  const std::function<void(const std::string& name, const RequirementKey& key,
                                           const RequirementValue& value)>& use) {
  const auto visit = [&](const RequirementTable& table, std::span<const RequirementKey> keys,
                         const std::string& prefix) {
    for (const RequirementKey& key : keys) {
      const auto found = table.find(key.name);
      if (found != table.end()) use(prefix + std::string(key.name), key, found->second);
    }
  };
  visit(requirements.values, RequirementKeys(), "");
  for (size_t i = 0; i < requirements.overrides.size(); ++i) {
    visit(requirements.overrides[i], OverrideKeys(), fmt::format("{}[{}].", kOverrideList, i));
  }
  for (size_t i = 0; i < requirements.launches.size(); ++i) {
    visit(requirements.launches[i], LaunchKeys(), fmt::format("{}[{}].", kLaunchList, i));
  }
}

std::string WithUnit(const RequirementKey& key, const char* what, Measure measure) {
  return fmt::format("{} from {} to {}", what, FormatMeasure(measure, key.least),
                     FormatMeasure(measure, key.most));
}

std::string PossibleValues(const RequirementKey& key) {
  switch (key.kind) {
    case RequirementKind::kText: return fmt::format("text of up to {} bytes", key.most);
    case RequirementKind::kChoice: return fmt::format("one of {}", key.choices);
    case RequirementKind::kChoices: return fmt::format("some of {}", key.choices);
    case RequirementKind::kYesNo: return "true or false";
    case RequirementKind::kCount:
      return fmt::format("whole number from {:.0f} to {:.0f}", key.least, key.most);
    case RequirementKind::kNumber: return fmt::format("number from {} to {}", key.least, key.most);
    case RequirementKind::kCountRange:
      return fmt::format("two whole numbers from {:.0f} to {:.0f}", key.least, key.most);
    case RequirementKind::kNumberRange:
      return fmt::format("two numbers from {} to {}", key.least, key.most);
    case RequirementKind::kDuration: return WithUnit(key, "duration", Measure::kDuration);
    case RequirementKind::kRate: return WithUnit(key, "rate", Measure::kRate);
    case RequirementKind::kSize: return WithUnit(key, "size", Measure::kSize);
    case RequirementKind::kSizeRange: return WithUnit(key, "two sizes", Measure::kSize);
    case RequirementKind::kTime: return fmt::format("date and time {}", kTimeBounds);
  }
  return "";
}

const char* WhatFollows(const RequirementKey& key) {
  return key.is_kept_only ? " (checked and kept; nothing follows from it yet)" : "";
}

nlohmann::ordered_json KeysAsJson(std::span<const RequirementKey> keys) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const RequirementKey& key : keys) {
    list.push_back({{"name", key.name},
                    {"values", PossibleValues(key)},
                    {"meaning", key.meaning},
                    {"kept_only", key.is_kept_only}});
  }
  return list;
}

}  // namespace

std::string RequirementsTable(const Requirements& requirements) {
  TextTable table({"key", "value"}, 2);
  ForEachValue(requirements, [&](const std::string& name, const RequirementKey& key,
                                 const RequirementValue& value) {
    table.Add({name, RequirementValueText(key, value)});
  });
  if (table.empty()) return "It says nothing: the job runs as it would without.\n";
  std::string text;
  table.Print(&text);
  return text;
}

std::string RequirementsExplained(const Requirements& requirements) {
  std::string text;
  ForEachValue(requirements, [&](const std::string& name, const RequirementKey& key,
                                 const RequirementValue& value) {
    text += fmt::format("{} = {}\n    {}{}\n", name, RequirementValueText(key, value), key.meaning,
                        WhatFollows(key));
  });
  return text.empty() ? "It says nothing: the job runs as it would without.\n" : text;
}

std::string AllRequirementKeys() {
  std::string text;
  const auto list = [&](std::span<const RequirementKey> keys) {
    std::string_view table;
    for (const RequirementKey& key : keys) {
      const size_t dot = key.name.find('.');
      const std::string_view of_key = dot == key.name.npos ? "" : key.name.substr(0, dot);
      if (of_key != table && keys.data() == RequirementKeys().data()) {
        text +=
            fmt::format("{}[{}]  {}\n", text.empty() ? "" : "\n", of_key, MeaningOfTable(of_key));
        table = of_key;
      }
      const std::string_view name = table.empty() ? key.name : key.name.substr(table.size() + 1);
      text += fmt::format("  {}: {}\n      {}{}\n", name, PossibleValues(key), key.meaning,
                          WhatFollows(key));
    }
  };
  list(RequirementKeys());
  text += fmt::format(
      "\n[[{}]]  What holds for some operations alone, {} at most; later ones go first.\n"
      "  Any of the keys of [collectives], and which operations are meant:\n",
      kOverrideList, kMostOverrides);
  list(OverrideKeys().first(OverrideKeys().size() - CollectiveKeys().size()));
  text += fmt::format("\n[[{}]]  Where the job may run, {} at most.\n", kLaunchList, kMostLaunches);
  list(LaunchKeys());
  return text;
}

std::string AllRequirementKeysAsJson() {
  const nlohmann::ordered_json document = {{"keys", KeysAsJson(RequirementKeys())},
                                           {"override_keys", KeysAsJson(OverrideKeys())},
                                           {"launch_keys", KeysAsJson(LaunchKeys())}};
  return JsonText(document, 2) + "\n";
}

}  // namespace harmonaize
