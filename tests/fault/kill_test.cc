// Ranks are killed in the middle of a sweep, again and again: the others are told who died, the
// daemon goes on serving, and nothing piles up in it.
//
// HARMONAIZE_TEST_ROUNDS sets the number of rounds (1000 for the full proof; the default keeps the
// suite short).

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

constexpr int kRanks = 4;

int Rounds() {
  const char* given = std::getenv("HARMONAIZE_TEST_ROUNDS");
  return given == nullptr ? 40 : std::atoi(given);
}

enum Outcome : int { kNamedTheDead = 0, kFinished = 20, kWrongError = 21, kNotNamed = 22 };

/// Sweeps all-reduces over registered and heap memory until one fails.
int SweepUntilError(ncclComm_t communicator, int victim) {
  constexpr size_t kLargest = 1 << 18;
  void* registered = nullptr;
  if (ncclMemAlloc(&registered, kLargest * sizeof(float)) != ncclSuccess) return 2;
  std::vector<float> heap(kLargest, 1.0f);
  for (int i = 0; i < 100000; ++i) {
    const size_t count = size_t{1} << (i % 19);
    void* buffer = i % 2 == 0 ? registered : heap.data();
    const ncclResult_t result =
        ncclAllReduce(buffer, buffer, count, ncclFloat, ncclMax, communicator, nullptr);
    if (result == ncclSuccess) continue;
    if (result != ncclRemoteError) return kWrongError;
    const std::string error = ncclGetLastError(communicator);
    return error.find("rank " + std::to_string(victim)) != std::string::npos ? kNamedTheDead
                                                                             : kNotNamed;
  }
  return kFinished;
}

/// One round: four ranks sweep, one is killed, three must say so.
void KillOne(int round) {
  const int victim = round % kRanks;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      ncclComm_t communicator;
      const std::string name = "kill-" + std::to_string(round);
      if (JoinNamed(name, kRanks, rank, &communicator) != ncclSuccess) _exit(1);
      const int outcome = SweepUntilError(communicator, victim);
      // Half of the rounds clean up, the others just end.
      if (round % 2 == 0) ncclCommAbort(communicator);
      _exit(outcome);
    }
    ranks.push_back(child);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20 + round * 7 % 60));
  kill(ranks[static_cast<size_t>(victim)], SIGKILL);
  for (int rank = 0; rank < kRanks; ++rank) {
    int status = 0;
    waitpid(ranks[static_cast<size_t>(rank)], &status, 0);
    if (rank == victim) {
      EXPECT_TRUE(WIFSIGNALED(status));
      continue;
    }
    // A victim that died before it had joined leaves the others with a failed start.
    EXPECT_TRUE(WIFEXITED(status) &&
                (WEXITSTATUS(status) == kNamedTheDead || WEXITSTATUS(status) == 1))
        << "round " << round << ", rank " << rank << ": status " << status;
  }
}

TEST(Kill, NothingPilesUp) {
  DaemonProcess daemon("[ranks]\nformation_timeout_seconds = 3\n");
  constexpr int kWarmUp = 10;
  const int rounds = Rounds();
  const int descriptors = daemon.OpenDescriptors();
  for (int round = 0; round < kWarmUp; ++round) KillOne(round);
  EXPECT_TRUE(daemon.SettlesTo(descriptors));
  const int mappings = daemon.Mappings();
  const long resident = daemon.ResidentKilobytes();
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round) {
    KillOne(kWarmUp + round);
  }
  EXPECT_TRUE(daemon.SettlesTo(descriptors));
  // A sanitizer keeps freed memory for a while; the address sanitizer looks for leaks by itself.
  if (!kSanitized) {
    // The allocator may split or merge a few of its own.
    EXPECT_LE(daemon.Mappings(), mappings + 20);
    // 1000 rounds of a leak of a kilobyte would show; arenas that settle do not.
    EXPECT_LE(daemon.ResidentKilobytes(), resident + 4096 + rounds);
  }
  RecordProperty("resident_growth_kilobytes",
                 static_cast<int>(daemon.ResidentKilobytes() - resident));
}

}  // namespace
}  // namespace harmonaize::testing
