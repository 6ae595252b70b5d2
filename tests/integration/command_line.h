// What tests of commands against real daemons share.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "harmonaize.h"
#include "nccl.h"
#include "tests/support/rank_runner.h"
#include "tests/unit/cli/launched.h"

namespace harmonaize::testing {

/// Returns the environment of a command that is to find the daemon at `socket`.
inline Environment EnvironmentFor(const std::string& socket) {
  Environment environment = TestEnvironment();
  environment.Set("HARMONAIZE_SOCKET", socket);
  return environment;
}

/// A command that has ended.
struct Ended {
  int status = -1;
  std::string output;
  std::string error;
};

inline Ended EndOf(Launched command) {
  const int status = command.Wait();
  return {status, command.output(), command.error()};
}

/// Runs `harmonaize WORDS` to its end. It finds the daemon at `socket`.
inline Ended RunCommand(std::vector<std::string> words, const std::string& socket) {
  const Environment environment = EnvironmentFor(socket);
  return EndOf(Launched(std::move(words), HARMONAIZE_PROGRAM, &environment));
}

/// Runs a script of bash with `harmonaize` as $1 and these further arguments.
inline Ended RunBash(const std::string& script, const std::vector<std::string>& arguments,
                     const std::string& socket) {
  const Environment environment = EnvironmentFor(socket);
  std::vector<std::string> words = {"-c", script, "bash", HARMONAIZE_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return EndOf(Launched(std::move(words), "/bin/bash", &environment));
}

/// Has two ranks of a job of this name disagree about so many all-reduces, of which each makes an
/// event of type mismatch.detected. The daemon is the one of this process's environment. Returns
/// whether all went as it should.
inline bool MakeEvents(const std::string& job, int count) {
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    setenv("HARMONAIZE_JOB", job.c_str(), 1);
    ncclComm_t communicator;
    if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
    for (int i = 0; i < count; ++i) {
      std::vector<float> data(8, 1);
      const size_t elements = rank == 0 ? 8 : 4;
      EXPECT_EQ(ncclAllReduce(data.data(), data.data(), elements, ncclFloat, ncclSum, communicator,
                              nullptr),
                ncclInvalidUsage);
    }
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  return statuses == std::vector<int>{0, 0};
}

/// Waits until the daemon has kept this many events, which it does a moment after it told them.
inline void AwaitEvents(int count, const std::string& socket) {
  const Ended ended = RunCommand(
      {"events", "--follow", "--from", "start", "--json", "--limit", std::to_string(count)},
      socket);
  EXPECT_EQ(ended.status, 0) << ended.error;
}

}  // namespace harmonaize::testing
