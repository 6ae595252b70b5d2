// What people read of when a job should save.

#include <gtest/gtest.h>

#include <string>

#include "cli/checkpoints/advice_table.h"
#include "cli/json_view.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

Json AnAdvice() {
  return ReadJson(R"({
    "job": "3f9a01c28be4d7053f9a01c28be4d705", "name": "llama", "advised": true,
    "moments": [
      {"why": "reclaim", "fits": true, "now": false, "not_before": "2026-12-01T02:00:00.000000Z",
       "deadline": "2026-12-01T02:01:00.000000Z", "confidence": 1,
       "expected": {"p10": 15, "p50": 20, "p90": 30}, "ranks": [3], "text": ""},
      {"why": "maintenance", "fits": false, "now": false,
       "not_before": "2026-12-01T01:00:00.000000Z", "deadline": "2026-12-01T01:00:05.000000Z",
       "confidence": 1, "expected": {"p10": 15, "p50": 20, "p90": 30}, "ranks": [], "text": ""}],
    "interval": {"seconds": 1800, "from": "most_lost_work", "optimum_seconds": 4000,
                 "optimum": {"p10": 3000, "p50": 5000, "p90": 9000}, "overhead": 0.02,
                 "expected_lost_seconds": 920, "worst_lost_seconds": 1820,
                 "keeps_most_lost_work": true, "keeps_overhead_cap": false},
    "usual": {"stall_seconds": 4, "seconds": {"p10": 15, "p50": 20, "p90": 30}, "from": "measured"},
    "lasting": {"stall_seconds": 4, "seconds": {"p10": 15, "p50": 20, "p90": 30},
                "from": "measured"},
    "hazard": {"per_day": 0.25, "p10": 0.01, "p50": 0.2, "p90": 0.6, "announced_per_day": 0,
               "rank_failures": 1,
               "causes": [{"cause": "rank", "per_day": 0.2, "p10": 0.01, "p50": 0.1, "p90": 0.5}]},
    "last": {"step": 1200, "where": "storage", "epoch_end": false, "bytes": null,
             "saved": "2026-12-01T00:30:00.000000Z"}})");
}

std::string Shown(const Json& document) {
  const Result<std::string> table = CheckpointAdviceTable(JsonText(document));
  EXPECT_TRUE(table.ok()) << table.status().message();
  return table.ok() ? *table : "";
}

TEST(CheckpointAdviceTable, ShowsMomentsIntervalAndHazard) {
  const std::string text = Shown(AnAdvice());
  for (const char* const part :
       {"reclaim      2026-12-01T02:00:00Z", "maintenance  does not fit", "30 min",
        "no more work lost than the job has stated", "overhead_cap cannot be kept",
        "stops the job for 4 s and is safe after 20 s (measured)", "of step 1200, in storage",
        "failures a day  mean", "rank"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  EXPECT_EQ(text.find("most_lost_work cannot be kept"), std::string::npos);
  EXPECT_EQ(text.find("once it states"), std::string::npos);
}

TEST(CheckpointAdviceTable, SaysHowAJobComesToBeAdvised) {
  Json advice = AnAdvice();
  advice["advised"] = false;
  advice["last"] = nullptr;
  const std::string text = Shown(advice);
  EXPECT_NE(text.find("once it states something in [checkpoint]"), std::string::npos) << text;
  EXPECT_NE(text.find("told of no checkpoint"), std::string::npos) << text;
}

TEST(CheckpointAdviceTable, ShowsWhatItCanOfAnyDocument) {
  for (const char* const document : {"{}", R"({"moments": 5, "interval": [], "hazard": "x"})"}) {
    EXPECT_TRUE(CheckpointAdviceTable(document).ok()) << document;
  }
  EXPECT_FALSE(CheckpointAdviceTable("[]").ok());
}

}  // namespace
}  // namespace harmonaize
