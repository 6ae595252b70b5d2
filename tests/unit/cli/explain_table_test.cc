#include "cli/explain/explain_table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/base/clean_text.h"

namespace harmonaize {
namespace {

constexpr char kExplained[] = R"({
  "calibration": {
    "measured_at": "2026-02-03T04:05:06Z", "state_path": "/var/lib/harmonaize",
    "costs": {"handoff_ns": 85.2, "copy_bytes_per_second": 41.26e9, "round_trip_ns": 12345},
    "fingerprint": {"processor": "Quick 9000", "memory_gib": 512, "kernel": "6.1.0",
                    "version": "0.1.0"}},
  "ranks": 4, "processors": 64, "workers": 32,
  "inline": {"enabled": true, "possible": true, "most_ranks": 32, "stream_bytes": 262144,
             "registered_limits_by": "calibration", "heap_limits_by": "configuration"},
  "collectives": [
    {"name": "AllReduce",
     "registered": {"limit_bytes": 128, "predictions": [
       {"bytes": 64, "inline_seconds": 5e-7, "offload_seconds": 1.2e-5},
       {"bytes": 128, "inline_seconds": 6e-7, "offload_seconds": 1.2e-5},
       {"bytes": 256, "inline_seconds": 7e-3, "offload_seconds": 2}]},
     "heap": {"limit_bytes": 1073741824, "predictions": [
       {"bytes": 64, "inline_seconds": 5e-7, "offload_seconds": 1.2e-5},
       {"bytes": 128, "inline_seconds": 6e-7, "offload_seconds": 1.2e-5},
       {"bytes": 256, "inline_seconds": 7e-7, "offload_seconds": 1.3e-5}]}},
    {"name": "Send", "registered": {"limit_bytes": 0}, "heap": {"limit_bytes": 4096}}]})";

TEST(ExplainTable, ShowsAllThatIsThere) {
  const Result<std::string> table = ExplainTable(kExplained);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(
      *table,
      "Quick 9000, 64 processors, 512 GiB, Linux 6.1.0; harmonaized 0.1.0 with 32 workers\n"
      "measured 2026-02-03T04:05:06Z\n"
      "a cache line seen on another processor          85.2 ns\n"
      "giving way to another thread                          -\n"
      "copying into a shared slot                    41.3 GB/s\n"
      "copying out of another rank's slot                    -\n"
      "adding two inputs in cache, read and written          -\n"
      "the same beyond the caches                            -\n"
      "an offloaded operation without data             12.3 us\n"
      "waking a thread                                       -\n"
      "until it is awake, on another processor               -\n"
      "kept in /var/lib/harmonaize/calibration.json; without it the next start measures anew\n"
      "\n"
      "communicators of 4 ranks: the largest block that goes inline\n"
      "On a host stream a block of more than 256 KiB goes to the daemon.\n"
      "The limits of heap memory are the configuration's (inline.heap_bytes).\n"
      "collective  registered   heap\n"
      "AllReduce        128 B  1 GiB\n"
      "Send             never  4 KiB\n"
      "\n"
      "AllReduce  registered: inline  offload     path  heap: inline  offload    path\n"
      "     64 B              500 ns    12 us   inline        500 ns    12 us  inline\n"
      "    256 B                7 ms      2 s  offload        700 ns    13 us  inline\n"
      "\n"
      "Send  registered: inline  offload  path  heap: inline  offload  path\n");
}

TEST(ExplainTable, SaysHowSureTheCostsAre) {
  const auto text = [](const std::string& calibration) {
    return *ExplainTable(R"({"calibration": {"rounds": 3, "rounds_agreed": 1,
      "load": {"lost_fraction": 0.426, "running_threads": 5}, )" +
                         calibration + "}}");
  };
  const std::string load =
      "1 of 3 rounds agree; meanwhile other programs had 43% of the time, with 5 threads\n";
  const std::string sure = text(R"("sure": true, "doubts": [], "again": {"wanted": false})");
  EXPECT_NE(sure.find("\nsure: " + load), std::string::npos) << sure;
  EXPECT_EQ(sure.find("again"), std::string::npos) << sure;
  const std::string unsure = text(R"("sure": false, "doubts": ["it was busy", 7],
    "again": {"allowed": true, "wanted": true, "tries": 2, "next_in_seconds": 7.6})");
  EXPECT_NE(unsure.find("\nunsure: " + load +
                        "  it was busy\n  7\n"
                        "measured again when the host is at rest: next try in 7 s, 2 tries so "
                        "far\n"),
            std::string::npos)
      << unsure;
  const std::string never = text(R"("sure": false, "again": {"allowed": false, "wanted": false})");
  EXPECT_NE(never.find("calibration.again"), std::string::npos) << never;
}

TEST(ExplainTable, SaysWhyNothingGoesInline) {
  const auto text = [](const char* document) { return *ExplainTable(document); };
  EXPECT_NE(text(R"({"inline": {"enabled": false, "possible": false}})").find("inline.enabled"),
            std::string::npos);
  EXPECT_NE(text(R"({"inline": {"enabled": true, "possible": false, "most_ranks": 32}})")
                .find("more than 32 ranks"),
            std::string::npos);
}

TEST(ExplainTable, SurvivesWhatItDoesNotKnow) {
  for (
      const char* document :
      {R"({})", R"({"calibration": 7, "inline": [], "collectives": {"a": 1}})",
       R"({"collectives": [7, null, {"name": 3, "registered": []}]})",
       R"({"collectives": [{"registered": {"limit_bytes": -1, "predictions": [1, {"bytes": "x"}]},
                             "heap": {"predictions": [{"inline_seconds": null}, []]}}]})",
       R"({"calibration": {"sure": false, "doubts": {"a": 1}, "load": 3, "again": []}})",
       R"({"calibration": {"sure": 1, "load": {"lost_fraction": "x"}, "again": {"wanted": true}}})",
       R"({"calibration": {"costs": {"wake_ns": "x", "handoff_ns": 1e300}}})"}) {
    EXPECT_TRUE(ExplainTable(document).ok()) << document;
    EXPECT_TRUE(SelectCollective(document, "AllReduce").ok()) << document;
  }
  for (const char* document : {"", "[]", "{", "\xff"}) {
    EXPECT_FALSE(ExplainTable(document).ok()) << document;
    EXPECT_FALSE(SelectCollective(document, "AllReduce").ok()) << document;
  }
}

// What a stranger wrote must not steer the terminal, wherever the document has it.
TEST(ExplainTable, KeepsControlCharactersFromTheTerminal) {
  const Result<std::string> table = ExplainTable(R"({
    "calibration": {"measured_at": "\u001b[2J", "fingerprint": {"processor": "\u009b2J"},
                    "sure": false, "doubts": ["\u0007\u007f\n"], "state_path": "\u001b"},
    "collectives": [{"name": "\u001bAllReduce"}]})");
  ASSERT_TRUE(table.ok());
  std::string lines = *table;
  std::replace(lines.begin(), lines.end(), '\n', ' ');
  EXPECT_EQ(lines, CleanText(lines, lines.size()));
}

TEST(SelectCollective, LeavesOutTheOthers) {
  const Result<std::string> selected = SelectCollective(kExplained, "Send");
  ASSERT_TRUE(selected.ok());
  EXPECT_EQ(selected->find("AllReduce"), std::string::npos);
  EXPECT_NE(selected->find("Send"), std::string::npos);
  EXPECT_NE(selected->find("Quick 9000"), std::string::npos);
}

}  // namespace
}  // namespace harmonaize
