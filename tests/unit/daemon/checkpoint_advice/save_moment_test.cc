#include "daemon/checkpoint_advice/save_moment.h"

#include <gtest/gtest.h>

#include <vector>

#include "daemon/checkpoint_advice/retention.h"

namespace harmonaize::daemon {
namespace {

/// A job that began at 0, saves every 1,000 s with a stall of 5 s, and whose checkpoints are safe
/// after 10 s in memory and after 40 to 60 s elsewhere.
SaveView View(double now, std::vector<SaveNotice>* notices) {
  return {
      .now_seconds = now,
      .interval_seconds = 1000,
      .hazard_per_second = 1e-5,
      .usual = {.stall_seconds = 5, .safe_seconds = {8, 10, 12}, .basis = SaveBasis::kMeasured},
      .lasting = {.stall_seconds = 5, .safe_seconds = {40, 50, 60}, .basis = SaveBasis::kMeasured},
      .notices = *notices};
}

SaveNotice Reclaim(double deadline, double told = 0) {
  return {.id = "reclaim",
          .why = SaveReason::kReclaim,
          .deadline_seconds = deadline,
          .told_seconds = told,
          .ranks = {2, 3}};
}

SaveNotice Failing(double told) {
  return {
      .id = "failing", .why = SaveReason::kHostFailing, .told_seconds = told, .confidence = 0.5};
}

TEST(SaveMoment, ComesAfterAnInterval) {
  std::vector<SaveNotice> none;
  SaveView view = View(100, &none);
  view.saved_seconds = 50;
  const std::vector<SaveMoment> moments = MomentsOf(view);
  ASSERT_EQ(moments.size(), 1U);
  EXPECT_EQ(moments[0].why, SaveReason::kInterval);
  EXPECT_EQ(moments[0].not_before_seconds, 1050);
  EXPECT_EQ(moments[0].deadline_seconds, 1150);
  EXPECT_NEAR(moments[0].confidence, 0.00995, 1e-5) << "a failure within the interval";
}

TEST(SaveMoment, WithoutACheckpointCountsFromTheJobsBegin) {
  std::vector<SaveNotice> none;
  EXPECT_EQ(MomentsOf(View(100, &none))[0].not_before_seconds, 1000);
}

TEST(SaveMoment, OfAJobThatHasComeAgainCountsFromThen) {
  std::vector<SaveNotice> notices;
  SaveView view = View(5010, &notices);
  view.saved_seconds = 3000;
  EXPECT_EQ(MomentsOf(view)[0].not_before_seconds, 4000);
  view.came_seconds = 5000;
  EXPECT_EQ(MomentsOf(view)[0].not_before_seconds, 6000) << "it has just restored what was saved";
  view.saved_seconds = 5500;
  EXPECT_EQ(MomentsOf(view)[0].not_before_seconds, 6500);
}

TEST(SaveMoment, ThatWasMissedIsNow) {
  std::vector<SaveNotice> none;
  const SaveMoment moment = MomentsOf(View(5000, &none))[0];
  EXPECT_EQ(moment.not_before_seconds, 1000);
  EXPECT_EQ(moment.deadline_seconds, 5100);
}

TEST(SaveMoment, MovesIntoAnIdleWindowThatIsNear) {
  std::vector<SaveNotice> none;
  SaveView view = View(850, &none);
  view.is_idle = true;
  EXPECT_EQ(MomentsOf(view)[0].not_before_seconds, 850);
  view.now_seconds = 700;
  EXPECT_EQ(MomentsOf(view)[0].not_before_seconds, 1000) << "too early";
}

TEST(SaveMoment, OfANoticeIsAsLateAsItFits) {
  std::vector<SaveNotice> notices = {Reclaim(600)};
  const std::vector<SaveMoment> moments = MomentsOf(View(100, &notices));
  ASSERT_EQ(moments.size(), 1U) << "the interval's would follow at once";
  EXPECT_EQ(moments[0].why, SaveReason::kReclaim);
  EXPECT_EQ(moments[0].ranks, (std::vector<int32_t>{2, 3}));
  EXPECT_TRUE(moments[0].fits);
  EXPECT_GT(moments[0].not_before_seconds, 400);
  EXPECT_EQ(moments[0].deadline_seconds, 600 - 60 * 1.25 - 2) << "safe with a margin";
  EXPECT_LT(moments[0].not_before_seconds, moments[0].deadline_seconds);
}

TEST(SaveMoment, CountsTheStepThatIsUnderWay) {
  std::vector<SaveNotice> notices = {Reclaim(600)};
  SaveView view = View(100, &notices);
  view.step_seconds = 100;
  const SaveMoment moment = MomentsOf(view)[0];
  EXPECT_EQ(moment.deadline_seconds, 600 - 160 * 1.25 - 2);
  EXPECT_GE(moment.deadline_seconds - moment.not_before_seconds, 200);
}

TEST(SaveMoment, OfAShortNoticeIsNowWhereItMayFit) {
  std::vector<SaveNotice> notices = {Reclaim(550)};
  const SaveMoment moment = MomentsOf(View(500, &notices))[0];
  EXPECT_TRUE(moment.fits);
  EXPECT_EQ(moment.not_before_seconds, 500);
  EXPECT_EQ(moment.deadline_seconds, 510) << "the fastest took 40 s";
}

TEST(SaveMoment, ThatCannotBeInTimeSaysSo) {
  std::vector<SaveNotice> notices = {Reclaim(530)};
  const std::vector<SaveMoment> moments = MomentsOf(View(500, &notices));
  ASSERT_EQ(moments.size(), 2U);
  EXPECT_EQ(moments[0].why, SaveReason::kInterval) << "what is to be done comes first";
  EXPECT_FALSE(moments[1].fits);
  notices[0].spares_host = true;
  EXPECT_TRUE(MomentsOf(View(500, &notices))[0].fits) << "memory is fast enough for a pause";
}

TEST(SaveMoment, IsNotRepeatedForACheckpointThatLiesNearEnough) {
  std::vector<SaveNotice> notices = {Reclaim(600)};
  SaveView view = View(520, &notices);
  view.saved_seconds = view.lasting_seconds = 519;
  EXPECT_EQ(MomentsOf(view)[0].why, SaveReason::kInterval)
      << "seconds of work are not worth a stall";
  view.lasting_seconds = 300;
  EXPECT_EQ(MomentsOf(view)[0].why, SaveReason::kReclaim) << "memory does not outlive the host";
  view.weight = 0.001;
  EXPECT_EQ(MomentsOf(view)[0].why, SaveReason::kInterval) << "work of no importance";
}

TEST(SaveMoment, OfANoticeThatHasPassedIsNone) {
  std::vector<SaveNotice> notices = {Reclaim(600)};
  const std::vector<SaveMoment> moments = MomentsOf(View(601, &notices));
  ASSERT_EQ(moments.size(), 1U);
  EXPECT_EQ(moments[0].why, SaveReason::kInterval);
}

TEST(SaveMoment, AHostThatIsFailingIsSavedFromOnceAndAtOnce) {
  std::vector<SaveNotice> notices = {Failing(490)};
  SaveView view = View(500, &notices);
  EXPECT_EQ(MomentsOf(view)[0].why, SaveReason::kHostFailing);
  EXPECT_EQ(MomentsOf(view)[0].not_before_seconds, 500);
  view.saved_seconds = view.lasting_seconds = 495;
  view.now_seconds = 900;
  EXPECT_EQ(MomentsOf(view)[0].why, SaveReason::kInterval)
      << "from then on the interval, which the danger shortens";
  EXPECT_NEAR(HazardOfNotices(notices), 0.5 / 7200, 1e-12);
  notices[0].deadline_seconds = 1000;
  EXPECT_EQ(HazardOfNotices(notices), 0) << "what has a time is no rate";
}

TEST(SaveMoment, SeveralNoticesHaveOneEach) {
  std::vector<SaveNotice> notices = {Reclaim(5000), Failing(100)};
  SaveView view = View(400, &notices);
  const std::vector<SaveMoment> moments = MomentsOf(view);
  ASSERT_EQ(moments.size(), 2U);
  EXPECT_EQ(moments[0].why, SaveReason::kHostFailing);
  EXPECT_EQ(moments[1].why, SaveReason::kReclaim);
  EXPECT_GT(moments[1].not_before_seconds, 4800);
}

TEST(Retention, TheNewestRotateAndEndsOfEpochsStay) {
  const KeptSave saves[] = {{10}, {20, true}, {30}, {40}, {50, true}, {60}};
  EXPECT_EQ(StepsToDrop(saves, 2), (std::vector<uint64_t>{10, 30}));
  EXPECT_EQ(StepsToDrop(saves, 4), (std::vector<uint64_t>{}));
  EXPECT_EQ(StepsToDrop(saves, 1), (std::vector<uint64_t>{10, 30, 40}));
}

TEST(Retention, AStepThatComesAgainCountsOnce) {
  const KeptSave saves[] = {{10}, {20}, {30}, {20}, {30, true}};
  EXPECT_EQ(StepsToDrop(saves, 1), (std::vector<uint64_t>{10}));
}

}  // namespace
}  // namespace harmonaize::daemon
