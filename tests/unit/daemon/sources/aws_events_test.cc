#include "daemon/sources/aws_events.h"

#include <gtest/gtest.h>

namespace harmonaize::daemon {
namespace {

using Kind = CloudNotice::Kind;
using State = CloudNotice::State;

constexpr const char* kReboot = R"([{
  "NotBefore": "21 Jan 2019 09:00:43 GMT", "Code": "system-reboot",
  "Description": "scheduled reboot", "EventId": "instance-event-0123456789abcdef0",
  "NotAfter": "21 Jan 2019 09:30:00 GMT", "State": "active"}])";

TEST(AwsEvents, ASpotActionReclaimsTheHostAtItsTime) {
  for (const char* action : {"terminate", "stop", "hibernate"}) {
    const PublishedNotices published =
        ReadAwsEvents({.spot_action = R"({"action": ")" + std::string(action) +
                                      R"(", "time": "2017-09-18T08:22:00Z"})"});
    EXPECT_EQ(published.doubt, "");
    ASSERT_EQ(published.notices.size(), 1u);
    const CloudNotice& notice = published.notices[0].notice;
    EXPECT_EQ(notice.source, "aws");
    EXPECT_EQ(notice.id, "spot-action/2017-09-18T08:22:00Z");
    EXPECT_EQ(notice.kind, Kind::kReclaim);
    EXPECT_EQ(notice.state, State::kScheduled);
    EXPECT_EQ(notice.not_before_seconds, 1505722920);
    EXPECT_EQ(notice.text, "spot interruption: " + std::string(action));
  }
}

TEST(AwsEvents, ASpotActionWithoutATimeCountsAllTheSame) {
  const PublishedNotices published =
      ReadAwsEvents({.spot_action = R"({"action": "terminate", "time": "2017-02-30T08:22:00Z"})"});
  ASSERT_EQ(published.notices.size(), 1u);
  EXPECT_EQ(published.notices[0].notice.kind, Kind::kReclaim);
  EXPECT_EQ(published.notices[0].notice.not_before_seconds, std::nullopt);
  EXPECT_TRUE(published.notices[0].id_recurs);
  EXPECT_NE(published.doubt, "");
}

TEST(AwsEvents, ARebalanceRecommendationIsARiskWithoutATime) {
  const PublishedNotices published =
      ReadAwsEvents({.rebalance = R"({"noticeTime": "2020-10-27T08:22:00Z"})"});
  EXPECT_EQ(published.doubt, "");
  ASSERT_EQ(published.notices.size(), 1u);
  EXPECT_EQ(published.notices[0].notice.kind, Kind::kRiskOfReclaim);
  EXPECT_EQ(published.notices[0].notice.not_before_seconds, std::nullopt);
  EXPECT_EQ(published.notices[0].notice.id, "rebalance/2020-10-27T08:22:00Z");
}

TEST(AwsEvents, ScheduledEventsAreMaintenanceOrReclaimByTheirCode) {
  const PublishedNotices published = ReadAwsEvents({.scheduled = kReboot});
  EXPECT_EQ(published.doubt, "");
  ASSERT_EQ(published.notices.size(), 1u);
  const CloudNotice& notice = published.notices[0].notice;
  EXPECT_EQ(notice.id, "instance-event-0123456789abcdef0");
  EXPECT_EQ(notice.kind, Kind::kMaintenance);
  EXPECT_EQ(notice.not_before_seconds, 1548061243);
  EXPECT_FALSE(notice.survives);
  EXPECT_EQ(notice.text, "system-reboot, until 21 Jan 2019 09:30:00 GMT: scheduled reboot");
  for (const auto& [code, kind] : {std::pair("instance-reboot", Kind::kMaintenance),
                                   std::pair("system-maintenance", Kind::kMaintenance),
                                   std::pair("instance-retirement", Kind::kReclaim),
                                   std::pair("instance-stop", Kind::kReclaim)}) {
    std::string document = kReboot;
    document.replace(document.find("system-reboot"), 13, code);
    const PublishedNotices other = ReadAwsEvents({.scheduled = document});
    ASSERT_EQ(other.notices.size(), 1u) << code;
    EXPECT_EQ(other.notices[0].notice.kind, kind) << code;
  }
}

TEST(AwsEvents, TheHistorySaysHowEventsEnded) {
  const PublishedNotices published = ReadAwsEvents(
      {.scheduled = "[]",
       .history =
           R"([{"EventId": "e1", "State": "canceled"}, {"EventId": "e2", "State": "completed"},
                      {"EventId": "e3", "State": "lost"}, {"EventId": 4, "State": "completed"}, 5])"});
  EXPECT_EQ(published.doubt, "");
  EXPECT_EQ(published.ended,
            (std::map<std::string, State>{{"e1", State::kWithdrawn}, {"e2", State::kCompleted}}));
}

TEST(AwsEvents, NoDocumentsAreNoNotices) {
  const PublishedNotices published = ReadAwsEvents({});
  EXPECT_TRUE(published.notices.empty());
  EXPECT_EQ(published.doubt, "");
}

TEST(AwsEvents, ADocumentThatIsNotUnderstoodLeavesADoubtAndTheOthersCount) {
  for (const AwsDocuments& strange :
       {AwsDocuments{.spot_action = "{"}, AwsDocuments{.spot_action = "[]"},
        AwsDocuments{.spot_action = R"({"action": "explode", "time": "2017-09-18T08:22:00Z"})"},
        AwsDocuments{.spot_action = R"({"action": 1})"}, AwsDocuments{.rebalance = "null"},
        AwsDocuments{.rebalance = R"({"noticeTime": 17})"},
        AwsDocuments{.rebalance = std::string(60'000, '[')}, AwsDocuments{.history = "{}"},
        AwsDocuments{.history = "<html>"}}) {
    AwsDocuments documents = strange;
    documents.scheduled = kReboot;
    const PublishedNotices published = ReadAwsEvents(documents);
    EXPECT_EQ(published.notices.size(), 1u);
    EXPECT_NE(published.doubt, "");
  }
}

TEST(AwsEvents, AScheduledEventThatIsNotUnderstoodLeavesADoubt) {
  for (const char* strange :
       {R"({})", R"([7])", R"([{"Code": "system-reboot", "State": "active"}])",
        R"([{"Code": "unheard-of", "State": "active", "EventId": "e"}])",
        R"([{"Code": "system-reboot", "State": "paused", "EventId": "e"}])",
        R"([{"Code": "system-reboot", "EventId": "e"}])"}) {
    const PublishedNotices published = ReadAwsEvents({.scheduled = strange});
    EXPECT_TRUE(published.notices.empty()) << strange;
    EXPECT_NE(published.doubt, "") << strange;
  }
  const PublishedNotices no_time =
      ReadAwsEvents({.scheduled = R"([{"Code": "instance-stop", "State": "active", "EventId": "e",
                         "NotBefore": "30 Feb 2019 09:00:43 GMT"}])"});
  EXPECT_EQ(no_time.notices.size(), 1u);
  EXPECT_NE(no_time.doubt, "");
}

}  // namespace
}  // namespace harmonaize::daemon
