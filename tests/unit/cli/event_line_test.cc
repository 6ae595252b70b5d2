#include "cli/events/event_line.h"

#include <gtest/gtest.h>

#include <string>

#include "src/base/json_text.h"
#include "tests/support/text_checks.h"

namespace harmonaize {
namespace {

constexpr char kLate[] = R"({
  "specversion": "1.0", "id": "3f9a01c2d4e5f60718293a4b5c6d7e8f.00000000000000aa",
  "source": "/harmonaize/jobs/3f9a01c2d4e5f60718293a4b5c6d7e8f",
  "type": "io.harmonaize.rank.late", "subject": "ranks/3", "time": "2026-11-26T08:30:00.123456Z",
  "severitytext": "WARN", "tenant": "uid 1000",
  "data": {"ranks": [3], "text": "rank 3 has not called AllReduce #7 for 12 s"}})";

TEST(EventLine, ShowsAnEventInColumns) {
  EXPECT_EQ(EventHead({}),
            "time                      severity  type                   job       subject"
            "               text\n");
  EXPECT_EQ(EventLine(ReadJson(kLate), {}),
            "2026-11-26T08:30:00.123Z  WARN      rank.late              3f9a01c2  ranks/3"
            "               rank 3 has not called AllReduce #7 for 12 s\n");
}

TEST(EventLine, NamesTheTenantForOperators) {
  const EventLineStyle style{.tenants = true};
  EXPECT_NE(EventHead(style).find("job       tenant        subject"), std::string::npos);
  EXPECT_NE(EventLine(ReadJson(kLate), style).find("3f9a01c2  uid 1000      ranks/3"),
            std::string::npos);
}

TEST(EventLine, ColoursTheSeverityAloneAndKeepsTheColumns) {
  const EventLineStyle style{.colours = true};
  Json event = ReadJson(kLate);
  EXPECT_NE(EventLine(event, style).find("  \033[33mWARN\033[0m      rank.late"),
            std::string::npos);
  event["severitytext"] = "INFO";
  EXPECT_EQ(EventLine(event, style), EventLine(event, {}));
  event["severitytext"] = "FATAL";
  EXPECT_NE(EventLine(event, style).find("\033[1;31mFATAL\033[0m"), std::string::npos);
}

TEST(EventLine, SaysHostWhereNoJobIsMeant) {
  Json event = ReadJson(kLate);
  event["source"] = "/harmonaize/host";
  EXPECT_NE(EventLine(event, {}).find("  host      ranks/3"), std::string::npos);
}

TEST(EventLine, IsOneLineThatSteersNoTerminalWhateverTheEventHolds) {
  Json event = ReadJson(kLate);
  event["subject"] = "communicators/\033]0;owned\007\n";
  event["type"] = 7;
  event["time"] = "\033[2J";
  event["data"] = "no object";
  event.erase("severitytext");
  const std::string line = EventLine(event, {});
  EXPECT_EQ(line.find('\033'), std::string::npos);
  EXPECT_EQ(line.find('\007'), std::string::npos);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_NE(EventLine(Json::array(), {}).find("-"), std::string::npos);
}

constexpr char kMaintenance[] = R"({
  "id": "3f9a01c2d4e5f60718293a4b5c6d7e8f.00000000000000aa",
  "source": "/harmonaize/jobs/3f9a01c2d4e5f60718293a4b5c6d7e8f",
  "type": "io.harmonaize.maintenance.scheduled", "tenant": "uid 1000",
  "data": {"not_before": "2026-11-26T09:00:00.000000Z", "text": "maintenance in 1 h"}})";
constexpr double kBeforeNine = 1795683599;  // 2026-11-26T08:59:59Z

TEST(AnswerLine, SaysHowToAnswerUntilTheDeadline) {
  const Json event = ReadJson(kMaintenance);
  EXPECT_EQ(AnswerLine(event, {.now_seconds = kBeforeNine}),
            "    answer with: harmonaize events --acknowledge "
            "3f9a01c2d4e5f60718293a4b5c6d7e8f.00000000000000aa  (or --extend ID --by 10min)\n");
  EXPECT_EQ(AnswerLine(event, {.now_seconds = kBeforeNine + 1}), "");
  Json unknown_time = event;
  unknown_time["data"].erase("not_before");
  EXPECT_EQ(AnswerLine(unknown_time, {.now_seconds = kBeforeNine + 1}),
            "    answer with: harmonaize events --acknowledge "
            "3f9a01c2d4e5f60718293a4b5c6d7e8f.00000000000000aa\n")
      << "there is no time beyond which more could be asked for";
}

TEST(AnswerLine, IsEmptyWhereTheDaemonSaysThatNothingCanBeAnsweredAnyMore) {
  Json event = ReadJson(kMaintenance);
  event["time"] = "2026-11-26T08:00:00.000000Z";
  EventLineStyle style{.now_seconds = kBeforeNine, .known_until = "2026-11-26T08:00:01.000000Z"};
  EXPECT_EQ(AnswerLine(event, style), "");
  style.answerable = {TextAt(event, "id")};
  EXPECT_NE(AnswerLine(event, style), "");
  style.answerable = {};
  event["time"] = "2026-11-26T08:00:02.000000Z";
  EXPECT_NE(AnswerLine(event, style), "") << "it came after the daemon was asked";
}

TEST(EventLine, EndsWithTheIdOfWhatWasAnnounced) {
  Json event = ReadJson(kMaintenance);
  event["data"]["maintenance"] = "disks";
  ExpectHolds(EventLine(event, {}), "maintenance in 1 h (disks)\n");
  event["data"].erase("maintenance");
  event["data"]["offer"] = "spot\033[1m";
  ExpectHolds(EventLine(event, {}), "maintenance in 1 h (spot");
  EXPECT_EQ(EventLine(event, {}).find('\033'), std::string::npos);
}

TEST(AnswerLine, IsEmptyWhereNothingIsAsked) {
  EXPECT_EQ(AnswerLine(ReadJson(kLate), {}), "");
  EXPECT_EQ(AnswerLine(Json::array(), {}), "");
}

TEST(AnswerLine, IsForTheOwnEventsOfAnOperatorAlone) {
  const Json event = ReadJson(kMaintenance);
  EXPECT_NE(AnswerLine(event, {.tenants = true, .own_tenant = "uid 1000"}), "");
  EXPECT_EQ(AnswerLine(event, {.tenants = true, .own_tenant = "uid 0"}), "");
}

TEST(AnswerLine, OffersNothingForAShellThatIsNoId) {
  Json event = ReadJson(kMaintenance);
  for (const char* const id : {"$(reboot).00000000000000aa", "a; b", "host.00000000000000aa", ""}) {
    event["id"] = id;
    EXPECT_EQ(AnswerLine(event, {}), "") << id;
  }
}

TEST(EventLine, LeavesATimeAsItIsWhoseFormIsAnother) {
  Json event = ReadJson(kLate);
  event["time"] = "2026-11-26T08:30:00Z";
  EXPECT_EQ(EventLine(event, {}).substr(0, 26), "2026-11-26T08:30:00Z      ");
}

}  // namespace
}  // namespace harmonaize
