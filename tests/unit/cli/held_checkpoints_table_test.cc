// What people read of the checkpoints that daemons hold.

#include <gtest/gtest.h>

#include <string>

#include "cli/checkpoints/held_table.h"
#include "cli/json_view.h"
#include "src/base/json_text.h"
#include "tests/support/text_checks.h"

namespace harmonaize {
namespace {

/// 2026-12-01T00:30:00Z.
constexpr double kSaved = 1'796'085'000;

Json ACheckpoint() {
  return {{"step", 1200},           {"save", "00f3000000000001"}, {"ranks", 4},
          {"complete", true},       {"epoch_end", true},          {"bytes_here", 3 << 20},
          {"saved", kSaved + 0.25}, {"parts_here", {0, 1}},       {"parts_elsewhere", {2, 3}}};
}

std::string ShownSaved(const Json& document) {
  const Result<std::string> table = HeldCheckpointsTable(JsonText(document), kSaved + 125);
  EXPECT_TRUE(table.ok()) << table.status().message();
  return table.ok() ? *table : "";
}

TEST(HeldCheckpointsTable, ShowsWhatHostsOfAJobHave) {
  Json being_saved = ACheckpoint();
  being_saved.update({{"step", 1300},
                      {"complete", false},
                      {"epoch_end", false},
                      {"parts_here", {1}},
                      {"parts_elsewhere", Json::array()}});
  const std::string text = ShownSaved({{"checkpoints", {being_saved, ACheckpoint()}}});
  EXPECT_EQ(
      LinesLike(text,
                "step +state +saved \\(UTC\\) +epoch end +stored +age +ranks +here +elsewhere "
                "+bytes here"),
      1)
      << text;
  EXPECT_EQ(LinesLike(text, "1200 +whole +2026-12-01T00:30:00 +yes +- +2 min 4 s +4 +2 +2 +3 MiB"),
            1)
      << text;
  EXPECT_EQ(
      LinesLike(text, "1300 +not whole +2026-12-01T00:30:00 +- +- +2 min 4 s +4 +1 +0 +3 MiB"), 1)
      << text;
  EXPECT_EQ(LinesLike(text, " +of ranks 0, 2, 3 no part is known here"), 1) << text;
}

TEST(HeldCheckpointsTable, ShowsWhatThisHostHasOfAllJobs) {
  const Json jobs = {
      {{"job", "3f9a01c28be4d7053f9a01c28be4d705"}, {"name", ""}, {"checkpoints", {ACheckpoint()}}},
      {{"job", "8be4d7053f9a01c28be4d7053f9a01c2"},
       {"name", "llama"},
       {"checkpoints", {ACheckpoint()}}}};
  const std::string text = ShownSaved({{"jobs", jobs}});
  EXPECT_EQ(LinesLike(text, "3f9a01c2 +1200 +whole .* 4 +2 +- +3 MiB"), 1) << text;
  EXPECT_EQ(LinesLike(text, "llama +1200 +whole .* 4 +2 +- +3 MiB"), 1) << text;
  EXPECT_EQ(text.find("no part"), std::string::npos) << text;
  Json of_tenants = jobs;
  for (Json& job : of_tenants) job["tenant"] = "uid 1000";
  EXPECT_EQ(LinesLike(ShownSaved({{"jobs", of_tenants}}), "uid 1000 +llama +1200 .*"), 1);
}

TEST(HeldCheckpointsTable, MissesNoPartOfWhatTheProvidersStoreHas) {
  Json stored = ACheckpoint();
  stored.update({{"stored", true}, {"parts_here", Json::array()}, {"bytes_here", 0}});
  const std::string text = ShownSaved({{"checkpoints", {stored}}});
  EXPECT_EQ(LinesLike(text, "1200 +whole +2026-12-01T00:30:00 +yes +yes +2 min 4 s +4 +0 +2 +0 B"),
            1)
      << text;
  EXPECT_EQ(text.find("no part"), std::string::npos) << text;
}

TEST(HeldCheckpointsTable, SaysThatThereAreNone) {
  EXPECT_EQ(ShownSaved({{"jobs", Json::array()}}), "no checkpoints\n");
  EXPECT_EQ(ShownSaved({{"checkpoints", Json::array()}}), "no checkpoints\n");
}

TEST(HeldCheckpointsTable, ShowsWhatItCanOfAnyDocument) {
  Json odd = ACheckpoint();
  odd.update({{"step", "\x1b[2J"},
              {"ranks", 1e18},
              {"saved", 1e300},
              {"parts_here", {-1, "x", {}}},
              {"parts_elsewhere", 5},
              {"bytes_here", -1}});
  const std::string text = ShownSaved({{"checkpoints", {odd, 5, {}}}});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  for (const char* const document : {"{}", R"({"jobs": 5})", R"({"jobs": [[], {"job": 1}]})"}) {
    EXPECT_TRUE(HeldCheckpointsTable(document, kSaved).ok()) << document;
  }
  EXPECT_FALSE(HeldCheckpointsTable("[]", kSaved).ok());
}

}  // namespace
}  // namespace harmonaize
