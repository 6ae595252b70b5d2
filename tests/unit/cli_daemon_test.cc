// The launcher and the real daemon, as both are built.
#include <gtest/gtest.h>

#include "tests/unit/cli_launched.h"

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

TEST(WithDaemon, StatusSaysThatThereIsNone) {
  Launched status({"status"});
  EXPECT_EQ(status.Wait(), 1);
  EXPECT_NE(status.error().find("/nonexistent/harmonaized.sock"), std::string::npos);
}

}  // namespace
}  // namespace harmonaize
