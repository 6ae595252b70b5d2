#include "cli/run/environment.h"

#include <gtest/gtest.h>

namespace harmonaize {
namespace {

TEST(RankEnvironment, SetsTorchrunVariables) {
  RankVariables variables;
  variables.rank = 2;
  variables.world_size = 4;
  variables.local_rank = 1;
  variables.local_world_size = 3;
  variables.master_port = 29500;
  const Environment environment = RankEnvironment(Environment(), variables);
  const std::vector<std::string> expected = {
      "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500",
      "RANK=2",       "WORLD_SIZE=4"};
  EXPECT_EQ(environment.Lines(), expected);
}

TEST(RankEnvironment, PreloadGoesBeforeWhatIsThere) {
  Environment base;
  RankVariables variables;
  variables.preload_library = "/opt/lib/libharmonaize-preload.so";
  EXPECT_EQ(RankEnvironment(base, variables).Get("LD_PRELOAD"), variables.preload_library);
  base.Set("LD_PRELOAD", "/usr/lib/libjemalloc.so.2");
  EXPECT_EQ(RankEnvironment(base, variables).Get("LD_PRELOAD"),
            "/opt/lib/libharmonaize-preload.so:/usr/lib/libjemalloc.so.2");
}

TEST(RankEnvironment, LeavesAloneWhatItIsNotTold) {
  Environment base;
  base.Set("HARMONAIZE_SOCKET", "/somewhere");
  base.Set("LD_PRELOAD", "x");
  const Environment environment = RankEnvironment(base, {});
  EXPECT_EQ(environment.Get("HARMONAIZE_SOCKET"), "/somewhere");
  EXPECT_EQ(environment.Get("LD_PRELOAD"), "x");
}

TEST(RankEnvironment, NamesTheJobOnlyWhereItIsTold) {
  Environment base;
  base.Set("HARMONAIZE_JOB", "before");
  base.Set("HARMONAIZE_JOB_KIND", "batch");
  EXPECT_EQ(RankEnvironment(base, {}).Get("HARMONAIZE_JOB"), "before");
  EXPECT_EQ(RankEnvironment(base, {}).Get("HARMONAIZE_JOB_KIND"), "batch");
  RankVariables variables;
  variables.job_name = "llama";
  variables.job_kind = "training";
  EXPECT_EQ(RankEnvironment(base, variables).Get("HARMONAIZE_JOB"), "llama");
  EXPECT_EQ(RankEnvironment(base, variables).Get("HARMONAIZE_JOB_KIND"), "training");
}

TEST(RankEnvironment, NamesRequirementsOnlyWhereItIsTold) {
  Environment base;
  base.Set("HARMONAIZE_REQUIREMENTS", "/before.toml");
  EXPECT_EQ(RankEnvironment(base, {}).Get("HARMONAIZE_REQUIREMENTS"), "/before.toml");
  RankVariables variables;
  variables.requirements = "/job.toml";
  EXPECT_EQ(RankEnvironment(base, variables).Get("HARMONAIZE_REQUIREMENTS"), "/job.toml");
}

TEST(CheckJobName, TakesALineThatDaemonsTake) {
  EXPECT_TRUE(CheckJobName("train llama \xc3\xa4").ok());
  EXPECT_TRUE(CheckJobName(std::string(63, 'x')).ok());
  EXPECT_EQ(CheckJobName(std::string(64, 'x')).message(),
            "a job's name has 63 bytes at most, and this one has 64");
  for (const char* wrong : {"", "two\nlines", "\033[31m", "\xff"}) {
    EXPECT_FALSE(CheckJobName(wrong).ok()) << wrong;
  }
}

TEST(RankEnvironment, AssignmentsWin) {
  RankVariables variables;
  variables.socket = "/a";
  variables.assignments = {"MASTER_PORT=7", "EMPTY=", "EQUALS=a=b", "HARMONAIZE_SOCKET=/b"};
  const Environment environment = RankEnvironment(Environment(), variables);
  EXPECT_EQ(environment.Get("MASTER_PORT"), "7");
  EXPECT_TRUE(environment.Has("EMPTY"));
  EXPECT_EQ(environment.Get("EQUALS"), "a=b");
  EXPECT_EQ(environment.Get("HARMONAIZE_SOCKET"), "/b");
}

TEST(CheckAssignment, TakesWhatAShellTakes) {
  EXPECT_TRUE(CheckAssignment("A=1").ok());
  EXPECT_TRUE(CheckAssignment("_a9=").ok());
  EXPECT_TRUE(CheckAssignment("A=b=c").ok());
  for (const char* wrong : {"", "A", "=1", "9A=1", "A-B=1", "A B=1"}) {
    EXPECT_FALSE(CheckAssignment(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace harmonaize
