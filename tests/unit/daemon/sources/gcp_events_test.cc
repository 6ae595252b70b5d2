#include "daemon/sources/gcp_events.h"

#include <gtest/gtest.h>

#include <string>

namespace harmonaize::daemon {
namespace {

using Kind = CloudNotice::Kind;
using State = CloudNotice::State;

TEST(GcpEvents, NothingIsPublishedInQuietTimes) {
  for (const char* value : {"NONE", "NONE\n"}) {
    const Result<PublishedNotices> published = ReadGcpMaintenance(value);
    ASSERT_TRUE(published.ok());
    EXPECT_TRUE(published->notices.empty());
  }
  ASSERT_TRUE(ReadGcpPreempted("FALSE").ok());
  EXPECT_TRUE(ReadGcpPreempted("FALSE")->notices.empty());
}

TEST(GcpEvents, ProcessesSurviveAMigrationAndNoTermination) {
  for (const auto& [value, survives] : {std::pair("MIGRATE_ON_HOST_MAINTENANCE", true),
                                        std::pair("TERMINATE_ON_HOST_MAINTENANCE", false)}) {
    const Result<PublishedNotices> published = ReadGcpMaintenance(value);
    ASSERT_TRUE(published.ok());
    ASSERT_EQ(published->notices.size(), 1u);
    const CloudNotice& notice = published->notices[0].notice;
    EXPECT_EQ(notice.source, "gcp");
    EXPECT_EQ(notice.id, "maintenance-event");
    EXPECT_TRUE(published->notices[0].id_recurs);
    EXPECT_EQ(notice.kind, Kind::kMaintenance);
    EXPECT_EQ(notice.state, State::kScheduled);
    EXPECT_EQ(notice.survives, survives);
    EXPECT_EQ(published->missing, State::kCompleted);
  }
}

TEST(GcpEvents, APreemptionHasStartedWhenItIsSeen) {
  const Result<PublishedNotices> published = ReadGcpPreempted("TRUE");
  ASSERT_TRUE(published.ok());
  ASSERT_EQ(published->notices.size(), 1u);
  EXPECT_EQ(published->notices[0].notice.kind, Kind::kReclaim);
  EXPECT_EQ(published->notices[0].notice.state, State::kStarted);
}

TEST(GcpEvents, AnyOtherValueIsAnErrorThatQuotesItClean) {
  for (const std::string& value :
       {std::string(), std::string("none"), std::string("NONE\n\n"), std::string("<html>\x1b[2J"),
        std::string(60'000, 'N'), std::string("TRUE "), std::string("MIGRATE")}) {
    for (const auto& read : {ReadGcpMaintenance(value), ReadGcpPreempted(value)}) {
      EXPECT_FALSE(read.ok()) << value.substr(0, 80);
      EXPECT_LT(read.status().message().size(), 200u);
      EXPECT_EQ(read.status().message().find('\x1b'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace harmonaize::daemon
