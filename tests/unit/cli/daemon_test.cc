// The launcher and the real daemon, as both are built.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/cli/launched.h"

namespace harmonaize {
namespace {

TEST(WithDaemon, PrivateDaemonServesTheJobAndEnds) {
  Launched run(
      {"run", "--no-preload", "--daemon=private", "-n", "2", "--", HARMONAIZE_PROGRAM, "status"});
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_NE(run.output().find("[0] harmonaized "), std::string::npos) << run.output();
  EXPECT_NE(run.output().find("[1] harmonaized "), std::string::npos) << run.output();
  EXPECT_NE(run.output().find("/harmonaize-run-"), std::string::npos);
  // One line says that it was started; a daemon that ends badly, or leaks, would add to it.
  EXPECT_EQ(SortedLines(run.error()).size(), 1U) << run.error();
}

TEST(WithDaemon, StatusIsADocumentForPrograms) {
  Launched run(
      {"run", "--no-preload", "--daemon=private", "--", HARMONAIZE_PROGRAM, "status", "--json"});
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_EQ(run.output().front(), '{');
  EXPECT_NE(run.output().find("\"uptime_seconds\""), std::string::npos);
  EXPECT_NE(run.output().find("\"tenants\""), std::string::npos);
}

TEST(WithDaemon, AJobUsesTheDaemonThatRuns) {
  // The outer job's daemon is the inner job's running one.
  Launched run({"run", "--no-preload", "--daemon=private", "--", HARMONAIZE_PROGRAM, "run",
                "--no-preload", "-n", "2", "--", "sh", "-c", "echo $HARMONAIZE_SOCKET"});
  EXPECT_EQ(run.Wait(), 0) << run.error();
  const std::vector<std::string> lines = SortedLines(run.output());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].substr(4), lines[1].substr(4));
  EXPECT_EQ(SortedLines(run.error()).size(), 1U) << run.error();
}

std::vector<std::string> InPrivateDaemon(std::vector<std::string> words) {
  words.insert(words.begin(), HARMONAIZE_PROGRAM);
  words.insert(words.begin(), {"run", "--no-preload", "--daemon=private", "--"});
  return words;
}

TEST(WithDaemon, ExplainsItsChoice) {
  Launched run(InPrivateDaemon({"explain", "--ranks", "3", "--collective", "all_reduce"}));
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_NE(run.output().find("communicators of 3 ranks"), std::string::npos) << run.output();
  EXPECT_NE(run.output().find("AllReduce"), std::string::npos);
  EXPECT_EQ(run.output().find("AllGather"), std::string::npos);
  EXPECT_NE(run.output().find("1 GiB"), std::string::npos);
}

TEST(WithDaemon, ExplanationIsADocumentForPrograms) {
  Launched run(InPrivateDaemon({"explain", "--json"}));
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_EQ(run.output().front(), '{');
  for (const char* key : {"\"round_trip_ns\"", "\"measured_at\"", "\"limit_bytes\"",
                          "\"offload_seconds\"", "\"Recv\""}) {
    EXPECT_NE(run.output().find(key), std::string::npos) << key;
  }
}

TEST(WithDaemon, ExplainRefusesWhatThereIsNot) {
  Launched many(InPrivateDaemon({"explain", "--ranks", "2000000"}));
  EXPECT_EQ(many.Wait(), 1);
  EXPECT_NE(many.error().find("2000000 ranks"), std::string::npos) << many.error();
  Launched unknown({"explain", "--collective", "AllRedcue"});
  EXPECT_EQ(unknown.Wait(), 2);
  EXPECT_NE(unknown.error().find("did you mean 'AllReduce'?"), std::string::npos)
      << unknown.error();
  Launched none({"explain", "--ranks", "0"});
  EXPECT_EQ(none.Wait(), 2);
}

TEST(WithDaemon, APrivateOneLeavesTheUsersStateAlone) {
  Result<TemporaryFolder> folder = TemporaryFolder::Make();
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  Environment environment = TestEnvironment();
  environment.Set("STATE_DIRECTORY", folder->path() + "/service");
  environment.Set("XDG_STATE_HOME", folder->path() + "/user");
  environment.Set("HOME", folder->path());
  environment.Set("TMPDIR", "/tmp");
  Launched run(InPrivateDaemon({"explain"}), HARMONAIZE_PROGRAM, &environment);
  EXPECT_EQ(run.Wait(), 0) << run.error();
  EXPECT_NE(run.output().find("/harmonaize-run-"), std::string::npos) << run.output();
  EXPECT_TRUE(std::filesystem::is_empty(folder->path()));
}

TEST(WithDaemon, StatusSaysThatThereIsNone) {
  Launched status({"status"});
  EXPECT_EQ(status.Wait(), 1);
  EXPECT_NE(status.error().find("/nonexistent/harmonaized.sock"), std::string::npos);
}

}  // namespace
}  // namespace harmonaize
