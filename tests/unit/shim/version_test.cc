// The line with the version, which a process tells once: so each look is at processes of their own,
// and this one uses no NCCL.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "include/harmonaize.h"
#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"
#include "tests/support/text_checks.h"

namespace harmonaize::testing {
namespace {

constexpr const char* kVersion = "NCCL version 2.28.9+harmonaize" HARMONAIZE_VERSION "\n";

int JoinAndLeaveTwice(int rank) {
  for (int i = 0; i < 2; ++i) {
    ncclComm_t comm = nullptr;
    if (JoinNamed("versions", 2, rank, &comm) != ncclSuccess) return 1;
    if (ncclCommDestroy(comm) != ncclSuccess) return 2;
  }
  return 0;
}

/// What the processes of two ranks print with this in the environment.
std::string PrintedWith(const char* variable, const char* value) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    unsetenv("NCCL_DEBUG");
    setenv(variable, value, 1);
    dup2(ends[1], STDOUT_FILENO);
    const std::vector<int> statuses = RunAsProcesses(2, JoinAndLeaveTwice);
    _exit(statuses[0] == 0 && statuses[1] == 0 ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t bytes; (bytes = read(ends[0], part, sizeof part)) > 0;) {
    text.append(part, static_cast<size_t>(bytes));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return text;
}

TEST(ShimVersion, BelowInfoRankZeroTellsItWithoutSayingWho) {
  const DaemonProcess daemon;
  EXPECT_EQ(PrintedWith("NCCL_DEBUG", "VERSION"), kVersion);
  EXPECT_EQ(PrintedWith("NCCL_DEBUG", "WARN"), kVersion);
  EXPECT_EQ(PrintedWith("NCCL_DEBUG", "none"), "");
}

TEST(ShimVersion, AConfigurationFileMayAskForIt) {
  const DaemonProcess daemon;
  const std::string file = daemon.folder() + "/nccl.conf";
  std::ofstream(file) << "# as an administrator would\nNCCL_DEBUG=VERSION\n";
  EXPECT_EQ(PrintedWith("NCCL_CONF_FILE", file.c_str()), kVersion);
}

TEST(ShimVersion, FromInfoOnEveryProcessDoes) {
  const DaemonProcess daemon;
  const std::string text = PrintedWith("NCCL_DEBUG", "INFO");
  EXPECT_EQ(
      LinesLike(text, ".*:[0-9]+ \\[0\\] NCCL INFO NCCL version 2\\.28\\.9\\+harmonaize[0-9.]+"), 2)
      << text;
  EXPECT_EQ(LinesLike(text, ".*NCCL version.*"), 2) << text;
}

}  // namespace
}  // namespace harmonaize::testing
