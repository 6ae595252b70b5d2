#include "daemon/checkpoint_advice/job_saves.h"

#include <gtest/gtest.h>

#include <string>

#include "daemon/checkpoint_advice/provider_hazard.h"
#include "daemon/promises/promise_book.h"

namespace harmonaize::daemon {
namespace {

constexpr double kNow = 1e6;
constexpr auto kHostCause = static_cast<size_t>(FailureCause::kHost);
constexpr auto kLinkCause = static_cast<size_t>(FailureCause::kLink);

SavedReport At(uint64_t step, SavePlace place = SavePlace::kStorage) {
  return {.step = step, .place = place, .stall_seconds = 2, .safe_seconds = 20};
}

SaveNotice ANotice(const std::string& id, double told = kNow) {
  return {.id = id,
          .why = SaveReason::kMaintenance,
          .deadline_seconds = kNow + 1000,
          .told_seconds = told};
}

TEST(JobSaves, AReportCountsOnceAndFromItsBegin) {
  JobSaves saves;
  EXPECT_FALSE(saves.has_reported());
  EXPECT_TRUE(saves.Take(At(5), kNow));
  EXPECT_FALSE(saves.Take(At(5), kNow + 1)) << "another rank's word";
  EXPECT_EQ(saves.saved_seconds(), kNow - 20) << "the state is that of its begin";
  EXPECT_EQ(saves.lasting_seconds(), kNow - 20);
  EXPECT_TRUE(saves.Take(At(5, SavePlace::kMemory), kNow + 50)) << "another place";
  JobSaves again = saves;
  EXPECT_TRUE(again.Take(At(5, SavePlace::kMemory), kNow + 5000)) << "the job went back";
  EXPECT_EQ(again.saved_seconds(), kNow + 4980);
  EXPECT_EQ(saves.saved_seconds(), kNow + 30);
  EXPECT_EQ(saves.lasting_seconds(), kNow - 20) << "memory does not last";
}

TEST(JobSaves, ACheckpointThatIsLostIsSafeNoLonger) {
  JobSaves saves;
  saves.Take(At(5), kNow);
  saves.TakeLost(4, SavePlace::kStorage);
  EXPECT_TRUE(saves.saved_seconds().has_value());
  saves.TakeLost(5, SavePlace::kStorage);
  EXPECT_FALSE(saves.saved_seconds().has_value());
  EXPECT_FALSE(saves.lasting_seconds().has_value());
  EXPECT_TRUE(saves.has_reported());
}

TEST(JobSaves, RanksThatDieTogetherAreOneFailure) {
  JobSaves saves;
  EXPECT_TRUE(saves.TakeFailure(kNow));
  EXPECT_FALSE(saves.TakeFailure(kNow + 1));
  EXPECT_TRUE(saves.TakeFailure(kNow + JobSaves::kOneFailureSeconds + 2));
  EXPECT_EQ(saves.ranks().events, 2);
}

TEST(JobSaves, NoticesAreBoundedAndTheOldestGoes) {
  JobSaves saves;
  for (size_t i = 0; i < 2 * JobSaves::kMostNotices; ++i) {
    saves.TakeNotice(ANotice(std::to_string(i), kNow + static_cast<double>(i)));
  }
  EXPECT_EQ(saves.Notices().size(), JobSaves::kMostNotices);
  for (const SaveNotice& notice : saves.Notices()) {
    EXPECT_GE(notice.told_seconds, kNow + JobSaves::kMostNotices);
  }
  saves.ForgetPast(kNow + 1001);
  EXPECT_TRUE(saves.Notices().empty());
}

TEST(JobSaves, NewsOfANoticeKeepsWhenItWasHeardFirst) {
  JobSaves saves;
  saves.TakeNotice(ANotice("a", kNow));
  SaveNotice later = ANotice("a", kNow + 100);
  later.deadline_seconds = kNow + 9000;
  saves.TakeNotice(later);
  ASSERT_EQ(saves.Notices().size(), 1U);
  EXPECT_EQ(saves.Notices()[0].told_seconds, kNow);
  EXPECT_EQ(saves.Notices()[0].deadline_seconds, kNow + 9000);
}

TEST(JobSaves, AdviceIsNewsOnceAndWhenItChanges) {
  JobSaves saves;
  saves.TakeNotice(ANotice("a"));
  SaveMoment moment{.why = SaveReason::kMaintenance,
                    .notice = "a",
                    .not_before_seconds = kNow + 800,
                    .deadline_seconds = kNow + 900};
  EXPECT_TRUE(saves.IsNews(moment, kNow));
  saves.NoteTold(moment, kNow);
  EXPECT_FALSE(saves.IsNews(moment, kNow));
  SaveMoment similar = moment;
  similar.deadline_seconds += 10;
  EXPECT_FALSE(saves.IsNews(similar, kNow)) << "what a checkpoint takes varies";
  SaveMoment other = moment;
  other.deadline_seconds = kNow + 5000;
  EXPECT_TRUE(saves.IsNews(other, kNow));
  SaveMoment hopeless = moment;
  hopeless.fits = false;
  EXPECT_TRUE(saves.IsNews(hopeless, kNow));
  saves.EndNotice("a");
  EXPECT_TRUE(saves.IsNews(moment, kNow)) << "announced anew";
}

TEST(JobSaves, WhatAnotherDaemonHasToldIsNoNews) {
  JobSaves saves;
  SaveNotice early = ANotice("early");
  SaveNotice late = ANotice("late");
  late.deadline_seconds = kNow + 9000;
  saves.TakeNotice(early);
  saves.TakeNotice(late);
  saves.NoteToldElsewhere({.why = SaveReason::kMaintenance,
                           .not_before_seconds = kNow + 8700,
                           .deadline_seconds = kNow + 8800},
                          kNow);
  EXPECT_FALSE(saves.IsNews({.why = SaveReason::kMaintenance,
                             .notice = "late",
                             .not_before_seconds = kNow + 8700,
                             .deadline_seconds = kNow + 8800},
                            kNow));
  EXPECT_TRUE(saves.IsNews({.why = SaveReason::kMaintenance, .notice = "early"}, kNow));
  saves.NoteToldElsewhere({.why = SaveReason::kInterval}, kNow);
  EXPECT_EQ(saves.advised_seconds(), kNow);
  saves.NoteToldElsewhere({.why = SaveReason::kPrice}, kNow);
  EXPECT_EQ(saves.told().size(), 1U) << "nothing is known of a price";
}

TEST(JobSaves, AreKeptAndReadBack) {
  JobSaves saves;
  saves.Take({.step = 7,
              .place = SavePlace::kPeer,
              .stall_seconds = 1.5,
              .safe_seconds = 9,
              .bytes = 1 << 20,
              .is_epoch_end = true},
             kNow);
  saves.TakeFailure(kNow + 5);
  saves.Watch(8, 3600);
  saves.Take({.step = 8, .place = SavePlace::kMemory, .safe_seconds = 9}, kNow + 50);
  const Record record = RecordOf("team", "0123", saves);
  EXPECT_LE(record.text.size(), kMostRecordBytes);
  std::optional<KeptSaves> kept = KeptSavesIn(record);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->tenant, "team");
  EXPECT_EQ(kept->job, "0123");
  EXPECT_EQ(kept->saves.last(), saves.last());
  EXPECT_EQ(kept->saves.saved_seconds(), saves.saved_seconds());
  EXPECT_EQ(kept->saves.ranks().events, saves.ranks().events);
  EXPECT_NEAR(kept->saves.ranks().unit_seconds, saves.ranks().unit_seconds, 1e-6);
  EXPECT_EQ(kept->saves.times().Usual({}).safe_seconds.p50, 9);
  EXPECT_EQ(kept->saves.times().Usual(2).stall_seconds, 1.5) << "as measured at another place";
  EXPECT_EQ(kept->saves.times().Lasting(2).stall_seconds, 1.5);
  EXPECT_FALSE(kept->saves.TakeFailure(kNow + 6)) << "the same failure";
}

TEST(JobSaves, TheLargestRecordFits) {
  JobSaves saves;
  for (uint64_t step = 0; step < 100; ++step) {
    for (const SavePlace place : {SavePlace::kMemory, SavePlace::kPeer, SavePlace::kStorage}) {
      saves.Take(
          {.step = step, .place = place, .stall_seconds = 1 / 3.0, .safe_seconds = 200 / 3.0},
          kNow + 1 / 3.0);
    }
  }
  const Record record = RecordOf(std::string(512, 't'), std::string(32, 'f'), saves);
  EXPECT_LE(record.text.size(), kMostRecordBytes);
  EXPECT_LE(record.kind.size() + record.key.size(), kMostRecordKeyBytes);
  EXPECT_TRUE(KeptSavesIn(record).has_value());
}

TEST(JobSaves, RecordsThatNobodyMadeAreRefused) {
  JobSaves saves;
  saves.Take(At(7), kNow);
  const Record good = RecordOf("team", "0123", saves);
  for (const char* const text : {"", "[]", "{}", "{\"tenant\": 5}"}) {
    EXPECT_FALSE(KeptSavesIn({good.kind, good.key, text}).has_value()) << text;
  }
  EXPECT_FALSE(KeptSavesIn({good.kind, "0124 team", good.text}).has_value());
  std::string damaged = good.text;
  damaged.replace(damaged.find("\"place\":2"), 9, "\"place\":9");
  EXPECT_FALSE(KeptSavesIn({good.kind, good.key, damaged}).has_value());
}

TEST(ProviderHazard, CountsTimeOfHostsAndEachCutOnce) {
  RecordKeeper keeper;
  const PromiseBook book(&keeper);
  ProviderHazard hazard;
  hazard.Watch(4, 100);
  EXPECT_EQ(hazard.Seen(book)[kHostCause].unit_seconds, 0) << "nothing is known of before";
  hazard.Watch(4, 200);
  EXPECT_NEAR(hazard.Seen(book)[kHostCause].unit_seconds, 400, 1e-3);
  hazard.NoteHostLost();
  hazard.NoteLinkCut(200);
  hazard.NoteLinkCut(201);
  EXPECT_EQ(hazard.Seen(book)[kHostCause].events, 1);
  EXPECT_EQ(hazard.Seen(book)[kLinkCause].events, 1);
  ProviderHazard next;
  EXPECT_TRUE(next.TakeKept(hazard.Kept()));
  EXPECT_NEAR(next.Seen(book)[kHostCause].unit_seconds, 400, 1e-3);
  EXPECT_EQ(next.Seen(book)[kHostCause].events, 1);
  EXPECT_FALSE(next.TakeKept({.kind = ProviderHazard::kRecord, .key = "hosts", .text = "{}"}));
}

}  // namespace
}  // namespace harmonaize::daemon
