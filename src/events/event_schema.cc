// SchemaOf, which event_type.h declares: a JSON Schema made of the table of fields.

#include <fmt/format.h>

#include <string>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "src/base/words.h"
#include "src/events/event_fields.h"
#include "src/events/event_type.h"

namespace harmonaize {
namespace {

using nlohmann::ordered_json;

ordered_json Text(size_t most_characters) {
  return {{"type", "string"}, {"minLength", 1}, {"maxLength", most_characters}};
}

ordered_json ListOf(ordered_json items, size_t most) {
  return {{"type", "array"}, {"items", std::move(items)}, {"minItems", 1}, {"maxItems", most}};
}

ordered_json AtLeastZero(const char* type) {
  return {{"type", type}, {"minimum", 0}};
}

ordered_json Ranks(size_t most) {
  ordered_json list = ListOf(AtLeastZero("integer"), most);
  list["uniqueItems"] = true;
  return list;
}

ordered_json Object(ordered_json properties, ordered_json required) {
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

ordered_json Asked() {
  ordered_json party = Object({{"ranks", Ranks(kMostRanksOfParty)},
                               {"ranks_unlisted", AtLeastZero("integer")},
                               {"asked", Text(kMostNameLength)}},
                              {"ranks", "asked"});
  return ListOf(std::move(party), kMostAskedParties);
}

ordered_json Estimate() {
  return Object({{"p10", AtLeastZero("number")},
                 {"p50", AtLeastZero("number")},
                 {"p90", AtLeastZero("number")}},
                {"p10", "p50", "p90"});
}

ordered_json Choices(const EventField& field) {
  ordered_json choices = ordered_json::array();
  ForEachWord(field.choices, [&](std::string_view choice) { choices.push_back(choice); });
  return {{"type", "string"}, {"enum", std::move(choices)}};
}

ordered_json SchemaOfField(const EventField& field) {
  switch (field.kind) {
    case FieldKind::kRanks: return Ranks(kMostListedRanks);
    case FieldKind::kName: return Text(kMostNameLength);
    case FieldKind::kNames: return ListOf(Text(kMostNameLength), kMostListedNames);
    case FieldKind::kSentence: return Text(kMostSentenceLength);
    case FieldKind::kChoice: return Choices(field);
    case FieldKind::kTime: return {{"type", "string"}, {"format", "date-time"}};
    case FieldKind::kSeconds: return AtLeastZero("number");
    case FieldKind::kCount: return AtLeastZero("integer");
    case FieldKind::kFraction: return {{"type", "number"}, {"minimum", 0}, {"maximum", 1}};
    case FieldKind::kFactor: return {{"type", "number"}, {"exclusiveMinimum", 0}};
    case FieldKind::kNumber: return {{"type", "number"}};
    case FieldKind::kYesNo: return {{"type", "boolean"}};
    case FieldKind::kEstimate: return Estimate();
    case FieldKind::kAsked: return Asked();
  }
  return true;
}

}  // namespace

std::string SchemaOf(EventType type) {
  const EventTypeInfo& info = InfoOf(type);
  ordered_json properties = ordered_json::object();
  ordered_json required = ordered_json::array();
  for (const EventField& field : FieldsOf(type).fields) {
    ordered_json property = {{"description", field.meaning}};
    property.update(SchemaOfField(field));
    properties[std::string(field.name)] = std::move(property);
    if (field.required) required.push_back(field.name);
  }
  // Fields that are not listed are allowed: a later release may add some to the same version.
  ordered_json schema = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"$id", DataSchemaOf(type)},
      {"title", fmt::format("Data of {}{}", kEventTypePrefix, info.name)},
      {"description", fmt::format("{} Not said: {}", info.when, FieldsOf(type).not_said)},
  };
  schema.update(Object(std::move(properties), std::move(required)));
  return JsonText(schema);
}

}  // namespace harmonaize
