// Many random operations, in random groups, on random communicators, every result checked; once
// with ranks as threads and once as processes. All ranks derive the same programme from one seed,
// which is printed when something fails. The ranks go by the daemon's steering, then change between
// the inline path and the daemon at random, each rank on its own, and come late at random.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/random_programme.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

constexpr int kOperations = kSanitized ? 120 : 1000;

/// HARMONAIZE_INLINE.
class RandomOperations : public ::testing::TestWithParam<const char*> {};

// A process reads the variable once, so ranks that are to go by it are processes, forked from one
// that has not.
TEST_P(RandomOperations, RanksAsProcesses) {
  DaemonProcess daemon;
  SCOPED_TRACE("HARMONAIZE_TEST_SEED=" + std::to_string(ProgrammeSeed()));
  const Programme programme = MakeProgramme({.seed = ProgrammeSeed(), .operations = kOperations});
  const std::vector<int> statuses = RunAsProcesses(kProgrammeRanks, [&](int rank) {
    setenv("HARMONAIZE_INLINE", GetParam(), 1);
    ncclComm_t world;
    if (JoinNamed("random-operations", kProgrammeRanks, rank, &world) != ncclSuccess) return 2;
    RunProgramme(programme, rank, world);
    return ncclCommDestroy(world) == ncclSuccess ? 0 : 3;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST_P(RandomOperations, RanksAsThreads) {
  DaemonProcess daemon;
  SCOPED_TRACE("HARMONAIZE_TEST_SEED=" + std::to_string(ProgrammeSeed()));
  const Programme programme =
      MakeProgramme({.seed = ProgrammeSeed() + 1, .operations = kOperations});
  const std::vector<int> statuses = RunAsProcesses(1, [&](int) {
    setenv("HARMONAIZE_INLINE", GetParam(), 1);
    RunAsThreads(kProgrammeRanks,
                 [&](int rank, ncclComm_t world) { RunProgramme(programme, rank, world); });
    return 0;
  });
  EXPECT_EQ(statuses.front(), 0);
}

INSTANTIATE_TEST_SUITE_P(Inline, RandomOperations, ::testing::Values("1", "0", "random"),
                         [](const auto& parameter) {
                           const std::string value = parameter.param;
                           return value == "1" ? "Steered" : value == "0" ? "Never" : "Random";
                         });

}  // namespace
}  // namespace harmonaize::testing
