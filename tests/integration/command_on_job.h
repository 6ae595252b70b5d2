#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "include/nccl.h"
#include "tests/integration/command_line.h"
#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {

/// A daemon with a job "llama" of one rank, which is this process, for commands about jobs.
class CommandOnJobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("HARMONAIZE_JOB", "llama", 1);
    ncclUniqueId id;
    ASSERT_NCCL(ncclGetUniqueId(&id));
    ASSERT_NCCL(ncclCommInitRank(&communicator_, 1, id, 0));
  }
  void TearDown() override {
    EXPECT_NCCL(ncclCommDestroy(communicator_));
    unsetenv("HARMONAIZE_JOB");
  }
  Ended RunOnJob(const std::vector<std::string>& words) {
    return RunCommand(words, daemon_.socket_path());
  }

  const DaemonProcess daemon_;
  ncclComm_t communicator_ = nullptr;
};

}  // namespace harmonaize::testing
