#include "cli/status/stuck_table.h"

#include <gtest/gtest.h>

#include <string>

#include "src/base/json_text.h"

namespace harmonaize {
namespace {

constexpr char kStuck[] = R"({"verdicts": [
  {"job": "3f9a01c2d4e5f60718293a4b5c6d7e8f", "job_name": "llama", "communicator": "a1b2c3d4",
   "communicator_name": "tp0", "operation": {"name": "AllReduce #12", "sequence": 12},
   "class": "not_called", "fault": true, "ranks": [1], "doing": "stopped",
   "roots": [{"rank": 1, "communicator": "tp0", "class": "not_called", "doing": "stopped"}],
   "since": "2026-11-26T08:30:00.000000Z", "for_seconds": 5.2, "stage": null,
   "way_out": "let it go on", "text": "AllReduce #12 has waited 5.2 s for rank 1"},
  {"job": "3f9a01c2d4e5f60718293a4b5c6d7e8f", "job_name": "", "communicator": "a1b2c3d5",
   "communicator_name": "", "operation": null, "class": "dead", "fault": true, "ranks": [0],
   "doing": "ended", "for_seconds": 90, "way_out": null, "text": "rank 2 died",
   "roots": [{"rank": 2, "communicator": "tp1"}, {"rank": 4, "communicator": "tp1"}]}]})";

std::string StuckTableOf(const std::string& document) {
  const Result<std::string> table = StuckTable(document);
  return table.ok() ? *table : table.status().message();
}

TEST(StuckTable, HasARowForEachCommunicatorAndTheSentenceBelow) {
  EXPECT_EQ(StuckTableOf(kStuck),
            "job       communicator  operation      ranks        class       doing    for         "
            "way out\n"
            "llama     tp0           AllReduce #12  1            not_called  stopped  5 s         "
            "let it go on\n"
            "    AllReduce #12 has waited 5.2 s for rank 1\n"
            "3f9a01c2  a1b2c3d5      -              2, 4 of tp1  dead        ended    1 min 30 s  "
            "-\n"
            "    rank 2 died\n");
}

TEST(StuckTable, ShowsWhatHasNotFormedUnderItsNameOrAsForming) {
  Json stuck = ReadJson(kStuck);
  for (Json& verdict : stuck["verdicts"]) verdict["communicator"] = nullptr;
  const std::string table = StuckTableOf(JsonText(stuck));
  EXPECT_NE(table.find("\nllama     tp0           AllReduce #12"), std::string::npos) << table;
  EXPECT_NE(table.find("\n3f9a01c2  forming       -"), std::string::npos) << table;
}

TEST(StuckTable, SaysThatNothingHangs) {
  EXPECT_EQ(StuckTableOf(R"({"verdicts": []})"), "nothing hangs\n");
  EXPECT_EQ(StuckTableOf("[]"), "the daemon's answer is not a JSON object");
}

TEST(StuckTable, ShowsWhatItCanOfOddVerdicts) {
  for (const char* const odd : {R"({"verdicts": [1, null, {}]})", R"({"verdicts": [{"roots": 7,
       "operation": [], "ranks": {}, "for_seconds": "x", "text": {}}]})"}) {
    EXPECT_EQ(StuckTableOf(odd).find("job  "), 0u) << StuckTableOf(odd);
  }
}

}  // namespace
}  // namespace harmonaize
