#include "daemon/checkpoint_advice/notice_reading.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace harmonaize::daemon {
namespace {

using Ids = std::vector<std::string>;

constexpr double kHeard = 1e9;
/// A time in UTC, and the same in seconds since 1970.
constexpr char kThen[] = "2026-11-28T12:00:00.250000Z";
constexpr double kThenSeconds = 1795867200;

SaveNews Read(EventType type, const std::string& data, const std::string& subject = "") {
  return NewsIn({.job = "j", .type = type, .subject = subject, .data = data}, kHeard);
}

TEST(SaveNews, MaintenanceHasATimeAndEnds) {
  const SaveNews news = Read(EventType::kMaintenanceScheduled,
                             R"({"maintenance": "m1", "ranks": [2, 3], "kind": "reboot",
                                 "not_before": ")" +
                                 std::string(kThen) + R"(", "text": ""})");
  ASSERT_TRUE(news.notice.has_value());
  EXPECT_EQ(news.notice->id, "maintenance/m1");
  EXPECT_EQ(news.notice->why, SaveReason::kMaintenance);
  EXPECT_EQ(news.notice->deadline_seconds, kThenSeconds);
  EXPECT_EQ(news.notice->ranks, (std::vector<int32_t>{2, 3}));
  EXPECT_FALSE(news.notice->spares_host);
  const SaveNews over =
      Read(EventType::kMaintenanceCompleted, R"({"maintenance": "m1", "ranks": [2, 3]})");
  EXPECT_EQ(over.ended, (Ids{"maintenance/m1", "restart/m1", "failing/2"}));
  EXPECT_EQ(Read(EventType::kMaintenanceStarted, R"({"maintenance": "m1"})").ended,
            (Ids{"maintenance/m1"}));
}

TEST(SaveNews, APauseSparesTheHostAndADrainEndsNothing) {
  const SaveNews pause = Read(EventType::kMaintenanceScheduled,
                              R"({"maintenance": "m1", "ranks": [0], "kind": "pause"})");
  ASSERT_TRUE(pause.notice.has_value());
  EXPECT_TRUE(pause.notice->spares_host);
  EXPECT_FALSE(pause.notice->deadline_seconds.has_value()) << "nobody knows when";
  EXPECT_FALSE(Read(EventType::kMaintenanceScheduled,
                    R"({"maintenance": "d", "kind": "unknown", "recommended_action": "none"})")
                   .notice.has_value());
}

TEST(SaveNews, OffersThatTakeRanksHaveOneNotice) {
  const SaveNews reclaim =
      Read(EventType::kCapacityReclaim, R"({"offer": "o", "ranks": [1], "deadline": ")" +
                                            std::string(kThen) + R"(", "confidence": 0.5})");
  ASSERT_TRUE(reclaim.notice.has_value());
  EXPECT_EQ(reclaim.notice->id, "offer/o");
  EXPECT_EQ(reclaim.notice->confidence, 0.5);
  const auto changed = [](const std::string& state, const std::string& kind) {
    return Read(EventType::kOfferChanged, R"({"offer": "o", "kind": ")" + kind +
                                              R"(", "state": ")" + state + R"(", "due": ")" +
                                              kThen + R"("})");
  };
  ASSERT_TRUE(changed("accepted", "reclaim").notice.has_value());
  EXPECT_EQ(changed("accepted", "reclaim").notice->id, "offer/o");
  EXPECT_EQ(changed("accepted", "move").notice->deadline_seconds, kThenSeconds);
  EXPECT_FALSE(changed("countered", "reclaim").notice.has_value());
  for (const char* const end : {"declined", "withdrawn", "expired", "fulfilled", "broken"}) {
    EXPECT_EQ(changed(end, "reclaim").ended, (Ids{"offer/o"})) << end;
  }
  EXPECT_FALSE(changed("accepted", "grow").notice.has_value());
  EXPECT_TRUE(changed("declined", "grow").ended.empty());
}

TEST(SaveNews, ConditionsHaveNoTime) {
  const SaveNews failing = Read(EventType::kHostFailing, R"({"ranks": [4, 5], "confidence": 0.5})");
  ASSERT_TRUE(failing.notice.has_value());
  EXPECT_EQ(failing.notice->why, SaveReason::kHostFailing);
  EXPECT_FALSE(failing.notice->deadline_seconds.has_value());
  const SaveNews risk =
      Read(EventType::kCapacityForecast, R"({"ranks": [4], "recommended_action": "checkpoint"})");
  ASSERT_TRUE(risk.notice.has_value());
  EXPECT_LT(risk.notice->confidence, 0.5);
  EXPECT_EQ(
      Read(EventType::kCapacityForecast, R"({"ranks": [4], "recommended_action": "none"})").ended,
      (Ids{risk.notice->id}));
  const SaveNews link = Read(EventType::kLinkDegraded, "{}", "communicators/tp0");
  ASSERT_TRUE(link.notice.has_value());
  EXPECT_EQ(Read(EventType::kLinkRestored, "{}", "communicators/tp0").ended,
            (Ids{link.notice->id}));
}

TEST(SaveNews, ARestartIsANoticeAndTheEndIsNone) {
  const SaveNews restart = Read(EventType::kDaemonRestarting, R"({"maintenance": "d1",
                                    "deadline": ")" + std::string(kThen) +
                                                                  R"("})");
  ASSERT_TRUE(restart.notice.has_value());
  EXPECT_EQ(restart.notice->why, SaveReason::kServiceRestart);
  EXPECT_FALSE(Read(EventType::kDaemonRestarting,
                    R"({"deadline": ")" + std::string(kThen) + R"(", "notice_seconds": 0})")
                   .notice.has_value());
}

TEST(SaveNews, OnlyARanksOwnEndIsAFailure) {
  EXPECT_TRUE(Read(EventType::kRankLost, R"({"why": "killed", "follows": false})").is_failure);
  EXPECT_TRUE(Read(EventType::kRankLost, R"({"why": "out_of_memory"})").is_failure);
  EXPECT_FALSE(Read(EventType::kRankLost, R"({"why": "killed", "follows": true})").is_failure);
  EXPECT_FALSE(Read(EventType::kRankLost, R"({"why": "exited"})").is_failure);
  EXPECT_FALSE(Read(EventType::kRankLost, R"({"why": "service_unreachable"})").is_failure);
}

TEST(SaveNews, CheckpointsAreRead) {
  const SaveNews saved = Read(EventType::kCheckpointSaved,
                              R"({"step": 12, "where": "peer", "took_seconds": 3,
                                  "stall_seconds": 1, "bytes": 9, "epoch_end": true})");
  EXPECT_EQ(saved.saved, (SavedReport{.step = 12,
                                      .place = SavePlace::kPeer,
                                      .stall_seconds = 1,
                                      .safe_seconds = 3,
                                      .bytes = 9,
                                      .is_epoch_end = true}));
  const SaveNews lost = Read(EventType::kCheckpointLost, R"({"step": 12, "where": "memory"})");
  ASSERT_TRUE(lost.lost.has_value());
  EXPECT_EQ(lost.lost->place, SavePlace::kMemory);
  const SaveNews advised = Read(EventType::kCheckpointAdvised,
                                R"({"why": "maintenance", "recommended_action": "none",
                                    "deadline": ")" +
                                    std::string(kThen) + R"("})");
  ASSERT_TRUE(advised.advised.has_value());
  EXPECT_EQ(advised.advised->why, SaveReason::kMaintenance);
  EXPECT_EQ(advised.advised->deadline_seconds, kThenSeconds);
  EXPECT_FALSE(advised.advised->fits);
}

TEST(SaveNews, DataThatMakesNoSenseSaysNothing) {
  for (const char* const data : {"", "[]", "{}", R"({"step": "x", "where": 5, "ranks": "all"})"}) {
    EXPECT_FALSE(Read(EventType::kCheckpointSaved, data).saved.has_value()) << data;
    EXPECT_FALSE(Read(EventType::kDaemonRestarting, data).notice.has_value()) << data;
    EXPECT_FALSE(Read(EventType::kCheckpointAdvised, data).advised.has_value()) << data;
  }
}

}  // namespace
}  // namespace harmonaize::daemon
