#include "src/events/event.h"

#include <gtest/gtest.h>

#include <set>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "src/base/time_text.h"
#include "src/events/event_type.h"

namespace harmonaize {
namespace {

TEST(EventType, IsFoundByItsNameWithAndWithoutPrefix) {
  std::set<std::string_view> names;
  for (const EventTypeInfo& info : EventTypes()) {
    EXPECT_EQ(EventTypeNamed(info.name), info.type);
    EXPECT_EQ(EventTypeNamed("io.harmonaize." + std::string(info.name)), info.type);
    EXPECT_EQ(&InfoOf(info.type), &info);
    EXPECT_TRUE(info.when.ends_with('.')) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name << " stands twice";
  }
  EXPECT_EQ(names.size(), 33);
  for (const char* const name : {"", "rank", "rank.", "rank.*", "Rank.late", "io.harmonaize.",
                                 "io.harmonaize.io.harmonaize.rank.late"}) {
    EXPECT_EQ(EventTypeNamed(name), std::nullopt) << name;
  }
}

TEST(EventType, HasASeverityByNameAndNumber) {
  for (const auto& [severity, name, number] :
       {std::tuple(Severity::kInfo, "INFO", 9), std::tuple(Severity::kWarning, "WARN", 13),
        std::tuple(Severity::kError, "ERROR", 17), std::tuple(Severity::kFatal, "FATAL", 21)}) {
    EXPECT_STREQ(SeverityName(severity), name);
    EXPECT_EQ(SeverityNamed(name), severity);
    EXPECT_EQ(SeverityNumbered(number), severity);
  }
  EXPECT_EQ(SeverityNamed("warn"), Severity::kWarning);
  for (const char* const name : {"", "WARNING", "INF", "INFO "}) {
    EXPECT_EQ(SeverityNamed(name), std::nullopt) << name;
  }
  for (const int64_t number : {0, 8, 10, 9 + 256}) {
    EXPECT_EQ(SeverityNumbered(number), std::nullopt) << number;
  }
}

TEST(EventType, NamesASchemaWhosePathIsThatOfTheInterface) {
  EXPECT_EQ(DataSchemaOf(EventType::kRankLate), "harmonaize:/v1/schemas/rank.late/1");
}

TEST(Event, BecomesACloudEvent) {
  const Event event{.job = "llm-7",
                    .unique = 255,
                    .sequence = 42,
                    .type = EventType::kRankLate,
                    .subject = "ranks/3",
                    .time_ns = 1'795'682'700'123'456'789,
                    .severity = Severity::kWarning,
                    .expiry_ns = 1'795'682'760'000'000'000,
                    .data = R"({"ranks":[3],"text":"Rank 3 is late."})"};
  EXPECT_EQ(
      ToCloudEvent(event),
      R"({"specversion":"1.0","id":"llm-7.00000000000000ff","source":"/harmonaize/jobs/llm-7",)"
      R"("type":"io.harmonaize.rank.late","subject":"ranks/3",)"
      R"("time":"2026-11-26T08:45:00.123456Z","datacontenttype":"application/json",)"
      R"("dataschema":"harmonaize:/v1/schemas/rank.late/1",)"
      R"("sequence":"00000000000000000042","severitynumber":13,"severitytext":"WARN",)"
      R"("expirytime":"2026-11-26T08:46:00.000000Z",)"
      R"("data":{"ranks":[3],"text":"Rank 3 is late."}})");
}

TEST(Event, OfTheHostHasNoJobAndNoSubject) {
  const auto document =
      ReadJson(ToCloudEvent({.sequence = 1, .type = EventType::kDaemonRestarted}));
  EXPECT_EQ(document["id"], "host.0000000000000000");
  EXPECT_EQ(document["source"], "/harmonaize/host");
  EXPECT_FALSE(document.contains("subject"));
  EXPECT_FALSE(document.contains("expirytime"));
  EXPECT_EQ(document["data"], nlohmann::json::object());
}

TEST(Event, IsOneLineOfJsonWhateverItHolds) {
  Event event{.job = "a", .sequence = 1};
  event.subject = "communicators/\xff\n\"\x01";
  for (const std::string& data :
       {std::string(), std::string("[1]"), std::string("{"), std::string("{}}"),
        std::string("{\"a\":\n1}"), std::string("{\"a\":\"\xff\"}"), std::string("null"),
        std::string(40'000, '['), std::string("{\0}", 3)}) {
    event.data = data;
    const std::string text = ToCloudEvent(event);
    EXPECT_EQ(text.find('\n'), std::string::npos);
    const auto document = ReadJson(text);
    ASSERT_TRUE(document.is_object()) << text;
    EXPECT_EQ(document["data"], nlohmann::json::object()) << data;
  }
}

TEST(Event, HasSequencesThatSortAsTexts) {
  const auto sequence = [](uint64_t number) {
    const Event event{.job = "a", .sequence = number};
    return ReadJson(ToCloudEvent(event))["sequence"].get<std::string>();
  };
  EXPECT_LT(sequence(9), sequence(10));
  EXPECT_LT(sequence(99'999), sequence(kMostSequence));
  EXPECT_LT(sequence(kMostSequence), sequence(UINT64_MAX));
}

TEST(EventId, IsReadAsItIsWritten) {
  for (const std::string job : {"", "a", "llm-7.b_~", "1.2", "hosts"}) {
    for (const uint64_t unique : {uint64_t{1}, uint64_t{0xabcdef}, UINT64_MAX}) {
      const Event event{.job = job, .unique = unique};
      const std::optional<EventId> id = ParseEventId(event.id());
      ASSERT_TRUE(id.has_value()) << event.id();
      EXPECT_EQ(*id, (EventId{job, unique}));
    }
  }
}

TEST(EventId, IsNothingElse) {
  const std::string number = "00000000000000ff";
  for (const std::string& text : {std::string(),
                                  std::string("."),
                                  std::string("a"),
                                  std::string("a."),
                                  "." + number,
                                  std::string("a.ff"),
                                  std::string("a.0000000000000000"),
                                  std::string("a.00000000000000FF"),
                                  std::string("a.00000000000000fg"),
                                  "a.-" + number.substr(1),
                                  "a.+" + number.substr(1),
                                  "a." + number + " ",
                                  " a." + number,
                                  "a." + number + "0",
                                  "a/b." + number,
                                  "a b." + number,
                                  "\xc3\xa4." + number,
                                  "a\n." + number,
                                  std::string(129, 'a') + "." + number,
                                  std::string("a\0.", 3) + number}) {
    EXPECT_EQ(ParseEventId(text), std::nullopt) << text;
  }
}

TEST(TimeText, IsUtcWithMicroseconds) {
  EXPECT_EQ(TimeText(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(TimeText(1'999), "1970-01-01T00:00:00.000001Z");
  EXPECT_EQ(TimeText(-1), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(TimeText(951'782'400'000'000'000), "2000-02-29T00:00:00.000000Z");
  EXPECT_EQ(TimeText(INT64_MAX), "2262-04-11T23:47:16.854775Z");
  EXPECT_EQ(TimeText(INT64_MIN), "1677-09-21T00:12:43.145224Z");
}

}  // namespace
}  // namespace harmonaize
