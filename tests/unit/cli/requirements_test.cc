// What `harmonaize requirements` says, and `harmonaize run --requirements`, without a daemon.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "cli/requirements/grant_view.h"
#include "src/base/json_text.h"
#include "src/requirements/requirement_key.h"
#include "tests/unit/cli/launched.h"

namespace harmonaize {
namespace {

namespace fs = std::filesystem;

void ExpectHolds(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

constexpr char kNothing[] = R"({"text": "", "shortfalls": []})";
constexpr char kPriority[] = R"({"text": "[collectives]\npriority = 1\n", "shortfalls": []})";
constexpr char kRefused[] = R"({"text": "", "shortfalls": [{"key": "collectives.priority",
  "asked": "3", "granted": null, "why": "the provider's policy grants none"}]})";

TEST(GrantText, SaysThatNothingIsAskedAndRefusesNothing) {
  EXPECT_EQ(*GrantText(kNothing, GrantOccasion::kStated),
            "nothing is asked for this job: it runs as it would without requirements\n");
  EXPECT_EQ(*GrantText(kNothing, GrantOccasion::kChecked), "nothing, since nothing is asked for\n");
}

TEST(GrantText, SaysThatWhatWasAskedIsForgotten) {
  EXPECT_EQ(*GrantText(kNothing, GrantOccasion::kForgotten),
            "what was asked for this job is forgotten: it runs as it would without requirements\n");
  EXPECT_EQ(*GrantText(kPriority, GrantOccasion::kForgotten),
            "what was asked for this job is forgotten; the provider's defaults hold:\n"
            "[collectives]\npriority = 1\n");
}

TEST(GrantText, TellsRefusalsApart) {
  EXPECT_EQ(*GrantText(kPriority, GrantOccasion::kStated), "[collectives]\npriority = 1\n");
  EXPECT_EQ(
      *GrantText(kRefused, GrantOccasion::kStated),
      "nothing is granted that was asked for\n\nnot as asked:\n"
      "  collectives.priority: asked 3, granted nothing: the provider's policy grants none\n");
  EXPECT_FALSE(GrantText("[]", GrantOccasion::kStated).ok());
}

class RequirementsFiles : public testing::Test {
 protected:
  void SetUp() override {
    Result<TemporaryFolder> folder = TemporaryFolder::Make();
    ASSERT_TRUE(folder.ok()) << folder.status().message();
    folder_ = std::move(*folder);
  }
  std::string Write(const std::string& text) {
    const std::string path = folder_.path() + "/job.toml";
    std::ofstream(path) << text;
    return path;
  }

  TemporaryFolder folder_;
};

TEST_F(RequirementsFiles, AreExplainedWithoutADaemonAsFarAsThatGoes) {
  Launched explain({"requirements", Write("[collectives]\npriority = 1\n"), "--explain"});
  EXPECT_EQ(explain.Wait(), 0) << explain.error();
  ExpectHolds(explain.output(), "collectives.priority = 1\n");
  ExpectHolds(explain.output(), "This tells only what each key does, not what would be granted: ");
  ExpectHolds(explain.output(), "/nonexistent/harmonaized.sock");
  ExpectHolds(explain.output(), "start one with `harmonaized`");
}

TEST(Requirements, ListTheirKeysAsJson) {
  Launched keys({"requirements", "--json"});
  EXPECT_EQ(keys.Wait(), 0) << keys.error();
  const nlohmann::json document = ReadJson(keys.output());
  ASSERT_TRUE(document.is_object()) << keys.output();
  ASSERT_EQ(document.at("keys").size(), RequirementKeys().size());
  EXPECT_EQ(document.at("override_keys").size(), OverrideKeys().size());
  EXPECT_EQ(document.at("launch_keys").size(), LaunchKeys().size());
  EXPECT_EQ(document.at("keys").at(0).at("name"), RequirementKeys().front().name);
  EXPECT_TRUE(document.at("keys").at(0).at("kept_only").is_boolean());
}

TEST_F(RequirementsFiles, ReachRanksByTheirAbsolutePath) {
  const std::string path = Write("[faults]\nlate_after = \"3 s\"\n");
  Launched run(RunScript({"-n", "2", "--no-prefix", "--requirements", fs::relative(path).string()},
                         "cd /; cat \"$HARMONAIZE_REQUIREMENTS\""));
  EXPECT_EQ(run.Wait(), 0) << run.error();
  const std::vector<std::string> expected = {"[faults]", "[faults]", "late_after = \"3 s\"",
                                             "late_after = \"3 s\""};
  EXPECT_EQ(SortedLines(run.output()), expected);
}

TEST_F(RequirementsFiles, KeepRanksFromStartingWithAllTheirMistakes) {
  const std::string path = Write("[collectives]\nobjectiv = \"latency\"\npriority = 9\n");
  Launched run(RunScript({"--requirements", path}, "echo started"));
  EXPECT_EQ(run.Wait(), 2);
  EXPECT_EQ(run.output(), "");
  ExpectHolds(run.error(), path + ":2:1: ");
  ExpectHolds(run.error(), "did you mean 'collectives.objective'?");
  ExpectHolds(run.error(), path + ":3:");
}

TEST_F(RequirementsFiles, HaveToBeFilesThatRanksCanRead) {
  for (const std::string& wrong : {std::string("/nonexistent/job.toml"), std::string("/dev/null"),
                                   folder_.path(), std::string()}) {
    Launched run(RunScript({"--requirements", wrong}, "echo started"));
    EXPECT_EQ(run.Wait(), 2) << wrong;
    EXPECT_EQ(run.output(), "") << wrong;
    EXPECT_NE(run.error(), "") << wrong;
  }
}

}  // namespace
}  // namespace harmonaize
