// What operators write and read: times, announcements, promises and drains.

#include <gtest/gtest.h>

#include <string>

#include "cli/drain/drain_view.h"
#include "cli/json_view.h"
#include "cli/maintenance/maintenance_table.h"
#include "cli/maintenance/time_words.h"
#include "cli/promises/promise_table.h"
#include "src/base/json_text.h"
#include "tests/support/text_checks.h"

namespace harmonaize {
namespace {

TEST(TimeWords, ATimeHasOneOrSeveralUnits) {
  const auto seconds = [](const char* word) { return SecondsInWord(word).value(); };
  EXPECT_EQ(seconds("90s"), 90);
  EXPECT_EQ(seconds("10 min"), 600);
  EXPECT_EQ(seconds("1h30m"), 5400);
  EXPECT_EQ(seconds("1h 30min 5s"), 5405);
  EXPECT_EQ(seconds("1.5h"), 5400);
  EXPECT_EQ(seconds("2d"), 172800);
  for (const char* const word : {"", "90", "1.5", "0", "soon", "h", "1h30", "30 1h", "1.2.3h", "1x",
                                 "-1h", "1h-30m", "1e3s", "inf"}) {
    EXPECT_FALSE(SecondsInWord(word).ok()) << word;
  }
}

TEST(TimeWords, ANumberAloneIsAskedForItsUnit) {
  EXPECT_EQ(CheckSecondsWord("30"), "30 what? A time has a unit, such as 30s, 30min or 30h");
  ExpectHolds(CheckMoreTimeWord("10"), "10 what?");
  ExpectHolds(CheckSecondsWord("1h30"), "is no time, such as");
}

TEST(TimeWords, ATimeThatIsTooLongIsSaidToBe) {
  ExpectHolds(SecondsInWord("2000d").status().message(), "more than 366 days");
  ExpectHolds(SecondsInWord("300d300d").status().message(), "more than 366 days");
  EXPECT_EQ(CheckMoreTimeWord("30d"), "");
  ExpectHolds(CheckMoreTimeWord("60d"), "'60d' is more than 30 days");
}

TEST(TimeWords, AMomentMayHaveAnOffset) {
  const auto moment = [](const char* word) { return MomentInWord(word).value(); };
  for (const char* const word :
       {"2026-12-01T02:00:00Z", "2026-12-01T02:00Z", "2026-12-01 02:00", "2026-12-01 02:00:00 UTC",
        "2026-12-01T04:00:00+02:00", "2026-12-01T04:00+0200", "2026-12-01 04:00 +02",
        "2026-11-30T20:30-05:30"}) {
    EXPECT_EQ(moment(word), "2026-12-01T02:00:00Z") << word;
  }
  for (const char* const word :
       {"", "tomorrow", "2026-12-01", "2026-12-01T02:00+15:00", "2026-12-01T02:00+02:60",
        "2026-12-01T02:00+2", "2026-12-01T02:00X", "2026-02-30T02:00Z", "2026-12-01T02:00+"}) {
    EXPECT_FALSE(MomentInWord(word).ok()) << word;
  }
}

TEST(MaintenanceTable, IsSortedByTimeAndShowsAllAnswersTheLastOneFirst) {
  const Result<std::string> table = MaintenanceTable(R"({"announced": [
    {"id": "c", "source": "operator", "kind": "maintenance", "state": "scheduled", "text": "",
     "not_before": null, "duration_seconds": null, "overdue": false,
     "jobs_acknowledged": 0, "jobs_told": 0, "answers": []},
    {"id": "b", "source": "operator", "kind": "maintenance", "state": "scheduled", "text": "disks",
     "not_before": "2026-12-01T02:00:00.000000Z", "duration_seconds": 600, "overdue": false,
     "jobs_acknowledged": 1, "jobs_told": 3, "jobs_asked_for_more_time": 1, "answers": [
      {"job": "cccccccccccccccc", "job_name": "done", "tenant": "bob", "ended": true,
       "acknowledged": null, "asked": null, "asked_until": null},
      {"job": "0123456789abcdef", "job_name": "train", "tenant": "root",
       "acknowledged": "2026-11-26T08:00:00.000000Z", "asked": "2026-11-26T09:00:00.000000Z",
       "asked_until": "2026-12-01T03:00:00.000000Z"},
      {"job": "fedcba9876543210", "job_name": "", "tenant": "alice",
       "acknowledged": "2026-11-26T10:00:00.000000Z", "asked": "2026-11-26T09:00:00.000000Z",
       "asked_until": "2026-12-01T03:00:00.000000Z"},
      {"job": "aaaaaaaaaaaaaaaa", "job_name": "eval", "tenant": "bob",
       "acknowledged": null, "asked": null, "asked_until": null}]},
    {"id": "a", "source": "operator", "kind": "reclaim", "state": "scheduled", "text": "",
     "not_before": "2026-11-26T01:00:00.000000Z", "duration_seconds": null, "overdue": true,
     "jobs_acknowledged": 0, "jobs_told": 0, "answers": []}]})");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(
      *table,
      "id  source    kind         state               not before            for         text "
      "                  acknowledged\n"
      "a   operator  reclaim      scheduled, overdue  2026-11-26T01:00:00Z  -                "
      "                        0 of 0\n"
      "b   operator  maintenance  scheduled           2026-12-01T02:00:00Z  10 min 0 s  "
      "disks  1 of 3, 1 asks for more time\n"
      "      train (01234567) of root: asks for time until 2026-12-01T03:00:00Z (acknowledged "
      "2026-11-26T08:00:00Z)\n"
      "      fedcba98 of alice: acknowledged 2026-11-26T10:00:00Z (asked for time until "
      "2026-12-01T03:00:00Z)\n"
      "      eval (aaaaaaaa) of bob: not acknowledged\n"
      "      done (cccccccc) of bob: ended\n"
      "c   operator  maintenance  scheduled           -                     -                "
      "                        0 of 0\n");
}

TEST(MaintenanceTable, ShowsAFewOfManyJobsThatHaveEnded) {
  Json announced = {{"id", "m"}, {"answers", Json::array()}};
  for (int i = 0; i < 7; ++i) {
    announced["answers"].push_back({{"job", std::string(16, static_cast<char>('0' + i))},
                                    {"tenant", "root"},
                                    {"ended", true},
                                    {"acknowledged", "2026-11-26T08:00:00.000000Z"},
                                    {"asked", nullptr}});
  }
  const std::string table =
      MaintenanceTable(JsonText(Json{{"announced", Json::array({announced})}})).value();
  ExpectHolds(table,
              "33333333 of root: acknowledged 2026-11-26T08:00:00Z, ended\n"
              "      and 3 more that have ended\n");
  EXPECT_EQ(table.find("44444444"), std::string::npos);
}

TEST(PromiseTable, CountsAJobOnceHoweverOftenItWasTold) {
  const Result<std::string> table = PromiseTable(R"({"promises": [
    {"id": "m1", "kind": "maintenance", "promised_from": "2026-12-01T02:00:00.000000Z",
     "began": null, "ended": null, "withdrawn": false, "kept": null, "told": [
      {"job": "a", "tenant": "root", "acknowledged": "2026-11-26T10:00:00.000000Z"},
      {"job": "b", "tenant": "root", "acknowledged": null},
      {"job": "a", "tenant": "root", "acknowledged": null},
      {"job": "b", "tenant": "root", "acknowledged": "2026-11-26T10:00:00.000000Z"},
      {"job": "b", "tenant": "alice", "acknowledged": null}]}]})");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(*table,
            "id  kind         promised from         began  outcome  jobs told  acknowledged\n"
            "m1  maintenance  2026-12-01T02:00:00Z  -      open             3             1\n");
}

TEST(DrainText, ShowsTheReasonAndSaysWhenJobsWereLeft) {
  Json drain = {{"state", "draining"},
                {"since", "2026-11-26T08:00:00.000000Z"},
                {"deadline", "2026-11-26T09:00:00.000000Z"},
                {"restart", true},
                {"reason", "disks"},
                {"communicators", 1U},
                {"jobs", Json::array()}};
  EXPECT_EQ(DrainText(drain).substr(0, DrainText(drain).find("no communicator")),
            "the daemon is draining since 2026-11-26T08:00:00Z, until 2026-11-26T09:00:00Z, and "
            "restarts then\nreason: disks\n");
  drain["state"] = "drained";
  drain["restart"] = false;
  ExpectHolds(DrainText(drain),
              "the daemon takes no new programs since 2026-11-26T08:00:00Z, and its deadline, "
              "2026-11-26T09:00:00Z, has passed\nreason: disks\n");
  drain["communicators"] = 0U;
  ExpectHolds(DrainText(drain), "the daemon is drained since");
  drain["communicators"] = 1U;
  drain["job_count"] = 1U;
  drain["jobs"] = {{{"job", "0123456789abcdef"},
                    {"name", "train"},
                    {"tenant", "root"},
                    {"ranks", 2U},
                    {"communicators", 1U},
                    {"since", "2026-11-26T07:00:00.000000Z"},
                    {"acknowledged", "2026-11-26T08:30:00.000000Z"},
                    {"asked", nullptr}}};
  ExpectHolds(DrainText(drain), "  acknowledged 2026-11-26T08:30:00Z  ");
  EXPECT_EQ(DrainProgress(drain),
            "waiting for 1 job with 1 communicator: train (root, 2 ranks, since "
            "2026-11-26T07:00:00Z, acknowledged 2026-11-26T08:30:00Z)");
}

}  // namespace
}  // namespace harmonaize
