#include <gtest/gtest.h>

#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/plan/plan_report.h"
#include "cli/plan/plan_setup.h"
#include "src/base/json_text.h"
#include "tests/support/text_checks.h"
#include "tests/unit/cli/launched.h"

namespace harmonaize {
namespace {

const std::string kTwoRacks = std::string(FABRICS_FOLDER) + "/two-racks.toml";

std::string RunPlan(std::vector<std::string> words, int status) {
  words.insert(words.begin(), {"plan", "--fabric", kTwoRacks});
  Launched launched(std::move(words));
  EXPECT_EQ(launched.Wait(), status) << launched.error();
  return status == 0 ? launched.output() : launched.error();
}

TEST(PlanSetupTest, NumbersRanksAsTheHostsAreListed) {
  PlanRequest request{.fabric = kTwoRacks, .hosts = {"host2:2", "host0"}, .ranks_per_host = 3};
  const Result<PlanSetup> setup = SetUpPlan(request);
  ASSERT_TRUE(setup.ok()) << setup.status().message();
  EXPECT_EQ(setup->planner->problem().host_of_rank, (std::vector<int>{2, 2, 0, 0, 0}));
  EXPECT_EQ(setup->sizes, SizeClasses());
  request.hosts = {"hots2"};
  EXPECT_EQ(SetUpPlan(request).status().message(),
            "the fabric has no host 'hots2', did you mean 'host2'?");
  request.hosts = {"host2:0"};
  EXPECT_FALSE(SetUpPlan(request).ok());
}

TEST(PlanSetupTest, LinksMayBeTakenForSlowerThanTheyAre) {
  PlanRequest request{.fabric = kTwoRacks, .hosts = {"host0", "host2"}};
  const double before = SetUpPlan(request)->planner->bound_seconds_per_byte();
  request.link_rates = {"leaf0-spine0=50Mbit", "leaf0,spine1=50Mbit,100Mbit"};
  const Result<PlanSetup> slower = SetUpPlan(request);
  ASSERT_TRUE(slower.ok()) << slower.status().message();
  EXPECT_GT(slower->planner->bound_seconds_per_byte(), 4 * before);
  const std::pair<const char*, const char*> wrong[] = {
      {"leaf0-spine9=50Mbit", "there is no link 'leaf0-spine9', did you mean 'leaf0-spine0'?"},
      {"leaf0,leaf1=50Mbit", "0 links join 'leaf0' and 'leaf1'; name one"},
      {"leaf0-spine0", "'leaf0-spine0' is not LINK=RATE, as leaf0-spine1=100Mbit"},
  };
  for (const auto& [text, what] : wrong) {
    request.link_rates = {text};
    EXPECT_EQ(SetUpPlan(request).status().message(), what);
  }
  request.link_rates = {"leaf0-spine0=fast"};
  EXPECT_FALSE(SetUpPlan(request).ok());
}

TEST(PlanCommandTest, PrintsTheChoiceWithItsBound) {
  const std::string text = RunPlan({"--hosts", "host0,host2,host1,host3", "--size", "64M"}, 0);
  ExpectHolds(text, "AllReduce of 4 ranks on 4 of the 4 hosts of two-racks; policy adaptive");
  ExpectHolds(text, "of bound");
  ExpectHolds(text, "99%");
  ExpectHolds(text, "805 ms");
  ExpectHolds(text, "not considered:");
}

TEST(PlanCommandTest, JsonHasAllCandidates) {
  const std::string text = RunPlan({"--collective", "all_gather", "--json"}, 0);
  const nlohmann::json document = ReadJson(text);
  ASSERT_TRUE(document.is_object()) << text;
  EXPECT_EQ(document["collective"], "AllGather");
  EXPECT_EQ(document["sizes"].size(), SizeClasses().size());
  const auto& plans = document["sizes"].back()["plans"];
  ASSERT_GT(plans.size(), 3u);
  EXPECT_LE(plans[0]["seconds"], plans[1]["seconds"]);
  EXPECT_GE(plans[0]["seconds"], document["sizes"].back()["bound_seconds"]);
}

TEST(PlanCommandTest, ShowsSteps) {
  const std::string text = RunPlan({"--size", "1M", "--policy", "static-ring", "--show-steps"}, 0);
  ExpectHolds(text, "ring AllReduce of 4 ranks on 4 hosts");
  ExpectHolds(text, "receive-reduce from host 3");
}

TEST(PlanCommandTest, TakesTheOperatorsPlan) {
  Result<TemporaryFolder> folder = TemporaryFolder::Make();
  ASSERT_TRUE(folder.ok());
  const std::string path = folder->path() + "/plan.toml";
  std::ofstream(path) << "[plan]\nalgorithm = \"chain\"\npieces = 8\n";
  const std::string text = RunPlan({"--size", "1M", "--policy", "fixed", "--plan-file", path}, 0);
  ExpectHolds(text, "chain, 8 pieces, slices of ");
  std::ofstream(path) << "[plan]\nalgorithm = \"chains\"\n";
  ExpectHolds(RunPlan({"--policy", "fixed", "--plan-file", path}, 1), "plan.toml:2:");
}

TEST(PlanCommandTest, SaysWhatIsWrong) {
  ExpectHolds(RunPlan({"--policy", "fixed"}, 1), "--policy fixed and --plan-file go together");
  ExpectHolds(RunPlan({"--collective", "Send"}, 1), "nothing to plan");
  ExpectHolds(RunPlan({"--collective", "AllReduse"}, 2), "did you mean 'AllReduce'?");
  ExpectHolds(RunPlan({"--size", "1Q"}, 1), "is no size");
  ExpectHolds(RunPlan({"--collective", "Broadcast", "--root", "7"}, 1), "root");
}

TEST(PlanCommandTest, HelpTeaches) {
  const std::string text = RunPlan({"--help"}, 0);
  ExpectHolds(text, "static-ring");
  ExpectHolds(text, "Examples:");
}

}  // namespace
}  // namespace harmonaize
