#include "src/events/event_filter.h"

#include <gtest/gtest.h>

#include "src/base/clean_text.h"

namespace harmonaize {
namespace {

using Types = std::vector<std::string>;

Types TypesIn(std::string_view text) {
  const Result<Types> types = ParseEventTypes(text);
  EXPECT_TRUE(types.ok()) << types.status().message();
  return types.ok() ? *types : Types{"?"};
}

TEST(EventFilter, TakesAllWhenItNamesNothing) {
  for (const EventTypeInfo& info : EventTypes()) {
    EXPECT_TRUE(EventFilter().Takes({.job = "a", .type = info.type}));
    EXPECT_TRUE(EventFilter().Takes({.type = info.type}));
  }
}

TEST(EventFilter, TakesTypesAndFamilies) {
  const EventFilter filter{.types = {"rank.*", "plan.changed"}};
  int taken = 0;
  for (const EventTypeInfo& info : EventTypes()) {
    const bool expected = info.name.starts_with("rank.") || info.name == "plan.changed";
    EXPECT_EQ(filter.Takes({.type = info.type}), expected) << info.name;
    taken += expected ? 1 : 0;
  }
  EXPECT_EQ(taken, 4);
  // A family is the whole word before the dot.
  EXPECT_FALSE(EventFilter{.types = {"ran.*"}}.Takes({.type = EventType::kRankLate}));
  EXPECT_FALSE(EventFilter{.types = {"rank"}}.Takes({.type = EventType::kRankLate}));
}

TEST(EventFilter, TakesOneJobAlone) {
  const EventFilter filter{.job = "a"};
  EXPECT_TRUE(filter.Takes({.job = "a"}));
  EXPECT_FALSE(filter.Takes({.job = "aa"}));
  EXPECT_FALSE(filter.Takes({.job = ""}));
}

TEST(EventFilter, TakesWhatIsAtLeastAsBad) {
  const EventFilter filter{.least_severity = Severity::kWarning};
  EXPECT_FALSE(filter.Takes({.severity = Severity::kInfo}));
  EXPECT_TRUE(filter.Takes({.severity = Severity::kWarning}));
  EXPECT_TRUE(filter.Takes({.severity = Severity::kFatal}));
}

TEST(EventTypesText, NamesTypesAndFamilies) {
  EXPECT_EQ(TypesIn("rank.*,plan.changed"), (Types{"rank.*", "plan.changed"}));
  EXPECT_EQ(TypesIn(" io.harmonaize.rank.late ,\tio.harmonaize.link.* "),
            (Types{"rank.late", "link.*"}));
  EXPECT_EQ(TypesIn("rank.late,rank.late,io.harmonaize.rank.late"), Types{"rank.late"});
}

TEST(EventTypesText, StandsForAllWhenEmptyOrAStar) {
  for (const char* const text : {"", "  ", "*", "io.harmonaize.*", "rank.late, *"}) {
    EXPECT_EQ(TypesIn(text), Types{}) << text;
  }
}

TEST(EventTypesText, SaysWhichTypeIsUnknownAndWhichIsNear) {
  const auto problem = [](std::string_view text) {
    const Result<Types> types = ParseEventTypes(text);
    EXPECT_EQ(types.status().code(), Code::kInvalidArgument) << text;
    return types.status().message();
  };
  EXPECT_EQ(problem("rank.lat"),
            "there is no type of events 'rank.lat', did you mean 'rank.late'?");
  EXPECT_EQ(problem("plan.changed,rang.*"),
            "there is no type of events 'rang.*', did you mean 'rank.*'?");
  EXPECT_EQ(problem("weather"), "there is no type of events 'weather'");
  EXPECT_EQ(problem("rank.late,,"), "the list of types of events has an empty part");
  EXPECT_EQ(problem("*,nothing.at.all.like.this"),
            "there is no type of events 'nothing.at.all.like.this'");
  const std::string hostile = problem("\x1b[2J" + std::string(100'000, 'x'));
  EXPECT_EQ(hostile, CleanText(hostile, 200)) << "what is quoted is clean and short";
}

}  // namespace
}  // namespace harmonaize
