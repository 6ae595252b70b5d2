#include "src/requirements/requirements_schema.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "src/base/measure.h"
#include "src/base/toml_reader.h"
#include "src/base/words.h"
#include "src/requirements/requirement_key.h"

namespace harmonaize {
namespace {

using nlohmann::ordered_json;

ordered_json Choices(const RequirementKey& key) {
  ordered_json choices = ordered_json::array();
  ForEachWord(key.choices, [&](std::string_view choice) { choices.push_back(choice); });
  return {{"type", "string"}, {"enum", std::move(choices)}};
}

ordered_json Number(const char* type, const RequirementKey& key) {
  return {{"type", type}, {"minimum", key.least}, {"maximum", key.most}};
}

ordered_json Measured(const RequirementKey& key, const char* units, Measure measure) {
  return {{"type", "string"},
          {"pattern", fmt::format("^[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]+)? ?({})$", units)},
          {"$comment", fmt::format("From {} to {}.", FormatMeasure(measure, key.least),
                                   FormatMeasure(measure, key.most))}};
}

ordered_json MeasuredSize(const RequirementKey& key) {
  return Measured(key, "B|[KMGT]iB|[KMGT]|[kMGT]B", Measure::kSize);
}

ordered_json Pair(ordered_json item) {
  return {{"type", "array"}, {"items", std::move(item)}, {"minItems", 2}, {"maxItems", 2}};
}

ordered_json SchemaOfValue(const RequirementKey& key) {
  switch (key.kind) {
    case RequirementKind::kText:
      return {{"type", "string"}, {"minLength", 1}, {"maxLength", static_cast<int>(key.most)}};
    case RequirementKind::kChoice: return Choices(key);
    case RequirementKind::kChoices: {
      ordered_json list = {
          {"type", "array"}, {"items", Choices(key)}, {"minItems", 1}, {"uniqueItems", true}};
      return {{"anyOf", {Choices(key), std::move(list)}}};
    }
    case RequirementKind::kYesNo: return {{"type", "boolean"}};
    case RequirementKind::kCount: return Number("integer", key);
    case RequirementKind::kNumber: return Number("number", key);
    case RequirementKind::kCountRange: return Pair(Number("integer", key));
    case RequirementKind::kNumberRange: return Pair(Number("number", key));
    case RequirementKind::kDuration: return Measured(key, "ns|us|ms|s|min|h|d", Measure::kDuration);
    case RequirementKind::kRate:
      return Measured(key, "[kMGT]?(B|bit)/s|[KMGT]iB/s", Measure::kRate);
    case RequirementKind::kSize: return MeasuredSize(key);
    case RequirementKind::kSizeRange: return Pair(MeasuredSize(key));
    case RequirementKind::kTime:
      return {{"type", "string"},
              {"format", "date-time"},
              {"$comment", fmt::format("A time {}.", kTimeBounds)}};
  }
  return true;
}

ordered_json EmptyTable(std::string_view meaning) {
  ordered_json table = {{"type", "object"}};
  if (!meaning.empty()) table["description"] = meaning;
  table["properties"] = ordered_json::object();
  table["additionalProperties"] = false;
  return table;
}

/// Puts the key's schema into that of its table, in tables of tables where its name has dots.
/// `path` is the table's own name.
void Insert(const RequirementKey& key, std::string_view name, std::string path,
            ordered_json* table) {
  ordered_json& properties = (*table)["properties"];
  const size_t dot = name.find('.');
  const std::string first(name.substr(0, dot));
  if (dot == std::string_view::npos) {
    ordered_json schema = {{"description", key.meaning}};
    schema.update(SchemaOfValue(key));
    properties[first] = std::move(schema);
    return;
  }
  path += (path.empty() ? "" : ".") + first;
  if (!properties.contains(first)) properties[first] = EmptyTable(MeaningOfTable(path));
  Insert(key, name.substr(dot + 1), std::move(path), &properties[first]);
}

ordered_json ListOf(std::span<const RequirementKey> keys, size_t most, const char* path,
                    const char* meaning) {
  ordered_json item = EmptyTable(meaning);
  for (const RequirementKey& key : keys) Insert(key, key.name, path, &item);
  return {{"type", "array"}, {"items", std::move(item)}, {"maxItems", most}};
}

}  // namespace

std::string RequirementsSchema() {
  ordered_json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                         {"title", "Requirements of a job that Harmonaize carries"}};
  schema.update(EmptyTable("What a tenant says of a job. All of it is optional."));
  for (const RequirementKey& key : RequirementKeys()) Insert(key, key.name, "", &schema);
  ordered_json& tables = schema["properties"];
  tables["collectives"]["properties"]["override"] =
      ListOf(OverrideKeys(), kMostOverrides, "collectives",
             "What holds for some operations alone; later overrides go before earlier ones.");
  tables["market"]["properties"]["launch"] =
      ListOf(LaunchKeys(), kMostLaunches, "market", "Where the job may run, and for what price.");
  return JsonText(schema, 2) + "\n";
}

}  // namespace harmonaize
