#include "src/events/event_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "src/events/event.h"

namespace harmonaize {
namespace {

using nlohmann::json;

/// Returns a value that a field may have.
json GoodValue(const EventField& field) {
  switch (field.kind) {
    case FieldKind::kRanks: return {0, 3};
    case FieldKind::kName: return "tp0";
    case FieldKind::kNames: return {"tp0", "dp1"};
    case FieldKind::kSentence: return "A sentence.";
    case FieldKind::kChoice: return std::string(field.choices.substr(0, field.choices.find(' ')));
    case FieldKind::kTime: return "2026-11-26T08:30:00.123456Z";
    case FieldKind::kSeconds: return 1.5;
    case FieldKind::kCount: return 7;
    case FieldKind::kFraction: return 0.25;
    case FieldKind::kFactor: return 2.5;
    case FieldKind::kNumber: return -3.5;
    case FieldKind::kYesNo: return true;
    case FieldKind::kEstimate: return {{"p10", 1}, {"p50", 2}, {"p90", 4}};
    case FieldKind::kAsked: return json::array({{{"ranks", {1}}, {"asked", "all-reduce"}}});
  }
  return nullptr;
}

/// Returns values that a field may not have.
std::vector<json> BadValues(const EventField& field) {
  std::vector<json> bad = {nullptr, json::object()};
  const auto add = [&](std::initializer_list<json> values) {
    bad.insert(bad.end(), values.begin(), values.end());
  };
  switch (field.kind) {
    case FieldKind::kRanks: {
      std::vector<int> many(kMostListedRanks + 1);
      std::iota(many.begin(), many.end(), 0);
      add({json::array(), {-1}, {1, 1}, {1.5}, {"1"}, 1, many});
      break;
    }
    case FieldKind::kName: add({"", std::string(kMostNameLength + 1, 'n'), 1}); break;
    case FieldKind::kNames: {
      const std::vector<std::string> many(kMostListedNames + 1, "n");
      add({json::array(), "n", {""}, {1}, many});
      break;
    }
    case FieldKind::kSentence: add({"", std::string(kMostSentenceLength + 1, 's'), 1}); break;
    case FieldKind::kChoice:
      add({"", "no such choice", std::string(field.choices) + " ", 1});
      break;
    case FieldKind::kTime:
      add({"", "yesterday", "2026-11-26", "2026-11-26T08:30:00", "2026-11-26T08:30:00.Z",
           "2026-11-26 08:30:00Z", "2026-11-26T08:30:00.1234567890Z", 1});
      break;
    case FieldKind::kSeconds: add({-0.5, "1", true}); break;
    case FieldKind::kCount: add({-1, 1.5, "1", true}); break;
    case FieldKind::kFraction: add({-0.1, 1.1, "0.5"}); break;
    case FieldKind::kFactor: add({0, -1, "2"}); break;
    case FieldKind::kNumber: add({"1", false}); break;
    case FieldKind::kYesNo: add({0, 1, "true"}); break;
    case FieldKind::kEstimate:
      add({1.5,
           {{"p10", 1}, {"p50", 2}},
           {{"p10", 3}, {"p50", 2}, {"p90", 4}},
           {{"p10", -1}, {"p50", 2}, {"p90", 4}}});
      break;
    case FieldKind::kAsked:
      add({json::array(), json::array({{{"ranks", {1}}}}), json::array({{{"asked", "x"}}}),
           json::array({{{"ranks", {1}}, {"asked", "x"}, {"host", "h"}}})});
      break;
  }
  return bad;
}

json Whole(EventType type) {
  json data = json::object();
  for (const EventField& field : FieldsOf(type).fields) {
    data[std::string(field.name)] = GoodValue(field);
  }
  return data;
}

Status Check(EventType type, const json& data) {
  return CheckedEventData(type, JsonText(data)).status();
}

TEST(EventData, MayHaveAllFieldsOfItsTypeAndMustHaveTheRequiredOnes) {
  for (const EventTypeInfo& info : EventTypes()) {
    const json whole = Whole(info.type);
    EXPECT_TRUE(Check(info.type, whole).ok()) << Check(info.type, whole).message();
    for (const EventField& field : FieldsOf(info.type).fields) {
      json less = whole;
      less.erase(std::string(field.name));
      const Status status = Check(info.type, less);
      EXPECT_EQ(status.ok(), !field.required) << info.name << " without " << field.name;
      if (field.required) {
        EXPECT_NE(status.message().find(field.name), std::string::npos) << status.message();
      }
    }
  }
}

TEST(EventData, IsRefusedWithAValueOfAnotherKind) {
  for (const EventTypeInfo& info : EventTypes()) {
    for (const EventField& field : FieldsOf(info.type).fields) {
      for (const json& value : BadValues(field)) {
        json data = Whole(info.type);
        data[std::string(field.name)] = value;
        const Status status = Check(info.type, data);
        EXPECT_EQ(status.code(), Code::kInvalidArgument)
            << info.name << "." << field.name << " = " << JsonText(value).substr(0, 100);
      }
    }
  }
}

TEST(EventData, HasNoFieldsThatTheTypeDoesNotList) {
  for (const EventTypeInfo& info : EventTypes()) {
    for (const char* const field : {"host", "address", "path", "pid", "user", ""}) {
      json data = Whole(info.type);
      data[field] = "x";
      EXPECT_EQ(Check(info.type, data).code(), Code::kInvalidArgument) << info.name << field;
    }
  }
  json data = Whole(EventType::kRankLate);
  data["comunicator"] = "tp0";
  EXPECT_EQ(Check(EventType::kRankLate, data).message(),
            "the data of rank.late has no field 'comunicator', did you mean 'communicator'?");
}

TEST(EventData, OfAnotherDaemonMayHaveFieldsThatThisOneDoesNotKnow) {
  for (const EventTypeInfo& info : EventTypes()) {
    const json whole = Whole(info.type);
    json newer = whole;
    newer["a_field_of_next_year"] = {{"inside", 1}};
    for (auto& [name, value] : newer.items()) {
      if (name == "asked" && value.is_array()) value.at(0)["since"] = "yesterday";
    }
    const Result<std::string> known = KnownEventData(info.type, JsonText(newer));
    ASSERT_TRUE(known.ok()) << info.name << ": " << known.status().message();
    EXPECT_EQ(ReadJson(*known), whole) << info.name;
    EXPECT_FALSE(Check(info.type, newer).ok()) << "an operator's data must fit";
  }
  // What it knows has to fit all the same.
  EXPECT_FALSE(KnownEventData(EventType::kDaemonRestarted, R"({"news":1})").ok());
  EXPECT_FALSE(KnownEventData(EventType::kDaemonRestarted, R"({"text":1,"news":1})").ok());
  EXPECT_FALSE(KnownEventData(EventType::kDaemonRestarted, "[]").ok());
}

TEST(EventData, IsGivenBackInOneLine) {
  const Result<std::string> data =
      CheckedEventData(EventType::kDaemonRestarted, "{\n \"text\" : \"It runs.\"\n}");
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(*data, R"({"text":"It runs."})");
}

TEST(EventData, IsRefusedWhateverElseStrangersSend) {
  std::string many = "{";
  for (int i = 0; i < 5000; ++i) many += "\"" + std::to_string(i) + "\":1,";
  for (const std::string& text :
       {std::string(), std::string("null"), std::string("[]"), std::string("{"),
        std::string("{\"text\":\"\xff\"}"), std::string(40'000, '['),
        "{\"text\":" + std::string(20'000, '[') + std::string(20'000, ']') + "}",
        many + "\"text\":\"x\"}", "{\"text\":\"" + std::string(kMostEventDataBytes, 'x') + "\"}"}) {
    EXPECT_EQ(CheckedEventData(EventType::kDaemonRestarted, text).status().code(),
              Code::kInvalidArgument)
        << text.substr(0, 50);
  }
}

TEST(EventDataBuilder, MakesWhatTheSchemaAsksFor) {
  EventData data(EventType::kRankLate, "Rank 3 of tp0 is late.");
  data.Set(fields::kRanks, std::vector<int32_t>{3})
      .Set(fields::kCommunicator, "tp0")
      .Set(fields::kOperation, "all-reduce 17")
      .Set(fields::kForSeconds, 5.25)
      .Set(fields::kWhy, "stopped");
  const Result<std::string> text = data.Finish();
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(ReadJson(*text), json({{"ranks", {3}},
                                   {"communicator", "tp0"},
                                   {"operation", "all-reduce 17"},
                                   {"for_seconds", 5.25},
                                   {"why", "stopped"},
                                   {"text", "Rank 3 of tp0 is late."}}));
  EXPECT_TRUE(CheckedEventData(EventType::kRankLate, *text).ok());
}

TEST(EventDataBuilder, HasAWordForEachKind) {
  EventData reclaim(EventType::kCapacityReclaim, "Two ranks are taken back.");
  reclaim.Set(fields::kRanks, std::vector<int32_t>{6, 7})
      .Set(fields::kDeadline, int64_t{1'795'682'700'000'000'000})
      .Set(fields::kNoticeSeconds, 120)
      .Set(fields::kConfidence, 1)
      .Set(fields::kCanBeExtended, false)
      .Set(fields::kPurpose, "A job of higher priority.")
      .Set(fields::kRecommendedAction, "checkpoint_and_leave");
  EXPECT_TRUE(reclaim.Finish().ok()) << reclaim.Finish().status().message();

  EventData offered(EventType::kCapacityOffered, "Eight ranks can be had.");
  offered.Set(fields::kOffer, "o-1")
      .Set(fields::kRankCount, 8)
      .Set(fields::kDeadline, int64_t{1})
      .Set(fields::kExpected, {.p10 = 60, .p50 = 600, .p90 = 6000})
      .Set(fields::kPrice, 1.5);
  EXPECT_TRUE(offered.Finish().ok()) << offered.Finish().status().message();

  EventData degraded(EventType::kLinkDegraded, "Two communicators are slower.");
  degraded.Set(fields::kCommunicators, std::vector<std::string>{"tp0", "dp0"})
      .Set(fields::kSlowdown, 1.75);
  EXPECT_TRUE(degraded.Finish().ok()) << degraded.Finish().status().message();

  EventData mismatch(EventType::kMismatchDetected, "Ranks disagree.");
  mismatch.Set(fields::kCommunicator, "tp0")
      .Set(fields::kOperation, "operation 9")
      .Set(fields::kAsked, std::vector<AskedParty>{{{0, 1}, "all-reduce of 4 float32"},
                                                   {{2}, "broadcast of 4 float32"}});
  EXPECT_TRUE(mismatch.Finish().ok()) << mismatch.Finish().status().message();
}

TEST(EventDataBuilder, RefusesWhatTheTypeHasNotOrLacks) {
  EventData lacks(EventType::kRankLate, "It lacks the rest.");
  EXPECT_EQ(lacks.Finish().status().code(), Code::kInternalError);
  EventData has_not(EventType::kDaemonRestarted, "It has no price.");
  has_not.Set(fields::kPrice, 1);
  EXPECT_EQ(has_not.Finish().status().code(), Code::kInternalError);
  for (const double seconds : {double{NAN}, double{INFINITY}, -1.0}) {
    EventData no_number(EventType::kDaemonRestarted, "It took no time that can be written.");
    no_number.Set(fields::kTookSeconds, seconds);
    EXPECT_EQ(no_number.Finish().status().code(), Code::kInternalError) << seconds;
  }
  EventData empty(EventType::kDaemonRestarted, "");
  EXPECT_EQ(empty.Finish().status().code(), Code::kInternalError);
}

TEST(EventDataBuilder, CleansAndCutsWhatTenantsNamed) {
  EventData data(EventType::kLinkDegraded, "Slow:\n" + std::string(5000, 's'));
  std::vector<std::string> names(20, "\x1b[2J\xff" + std::string(1000, 'n'));
  data.Set(fields::kCommunicators, names).Set(fields::kSlowdown, 2);
  const Result<std::string> text = data.Finish();
  ASSERT_TRUE(text.ok()) << text.status().message();
  const json made = ReadJson(*text);
  EXPECT_EQ(made["communicators"].size(), kMostListedNames);
  EXPECT_EQ(made["communicators_unlisted"], 20 - kMostListedNames);
  EXPECT_EQ(text->find('\x1b'), std::string::npos);
  EXPECT_LE(text->size(), kMostEventDataBytes);
}

TEST(EventDataBuilder, CountsTheRanksThatItDoesNotList) {
  std::vector<int32_t> ranks(16384);
  std::iota(ranks.begin(), ranks.end(), 2'000'000'000);
  EventData data(EventType::kRankLost, "All are gone.");
  data.Set(fields::kRanks, ranks).Set(fields::kCommunicator, "world").Set(fields::kWhy, "killed");
  const Result<std::string> text = data.Finish();
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(ReadJson(*text)["ranks"].size(), kMostListedRanks);
  EXPECT_EQ(ReadJson(*text)["ranks_unlisted"], 16384 - kMostListedRanks);
  std::vector<AskedParty> parties(40, {ranks, std::string(1000, 'a')});
  EventData mismatch(EventType::kMismatchDetected, "All disagree.");
  mismatch.Set(fields::kCommunicator, "world")
      .Set(fields::kOperation, "operation 1")
      .Set(fields::kAsked, parties);
  EXPECT_TRUE(mismatch.Finish().ok()) << mismatch.Finish().status().message();
}

TEST(EventSchema, DescribesEachFieldThatTheTableHas) {
  for (const EventTypeInfo& info : EventTypes()) {
    const json schema = ReadJson(SchemaOf(info.type));
    ASSERT_TRUE(schema.is_object()) << info.name;
    EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    EXPECT_EQ(schema["$id"], DataSchemaOf(info.type));
    EXPECT_EQ(schema["type"], "object");
    const auto fields = FieldsOf(info.type).fields;
    EXPECT_EQ(schema["properties"].size(), fields.size()) << "a name stands twice in " << info.name;
    size_t required = 0;
    for (const EventField& field : fields) {
      const json& property = schema["properties"][std::string(field.name)];
      EXPECT_EQ(property["description"], field.meaning);
      EXPECT_TRUE(property.contains("type")) << info.name << "." << field.name;
      EXPECT_TRUE(field.meaning.ends_with('.')) << field.meaning;
      EXPECT_EQ(property.contains("enum"), !field.choices.empty());
      required += field.required ? 1 : 0;
    }
    EXPECT_EQ(schema["required"].size(), required);
    EXPECT_EQ(schema["required"].back(), "text");
  }
}

}  // namespace
}  // namespace harmonaize
