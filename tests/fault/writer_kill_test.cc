// kill -9 of writers and ranks at random moments of saves: what was committed stays, and what looks
// committed is whole. HARMONAIZE_KILLS and HARMONAIZE_KILL_SEED make it longer, and repeat it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/checkpoint/stored_checkpoint.h"
#include "tests/support/stored_model.h"
#include "tests/support/writer_process.h"

namespace harmonaize::testing {
namespace {

using checkpoint::CheckpointSummary;
using checkpoint::ListCheckpoints;
using checkpoint::OpenStore;
using checkpoint::PartIdentity;

constexpr int32_t kRanks = 2;
/// Kills of a run that nobody asks to be longer.
constexpr int kUsualKills = 40;
/// Longest time from the start of the ranks to the first kill: some saves take place in it.
constexpr int kMostDelayMs = 250;

int NumberFrom(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

/// Plays a rank: saves step after step, and writes each that is committed to `commits`. Never
/// returns.
[[noreturn]] void PlayRank(const OpenStore& options, uint64_t first_step, uint64_t save,
                           int commits) {
  Result<std::unique_ptr<WriterProcess>> writer = WriterProcess::Start(options);
  if (!writer.ok()) _exit(1);
  for (uint64_t step = first_step;; ++step) {
    const PartIdentity identity = {
        .step = step, .save = save, .rank = options.rank, .ranks = options.ranks};
    if (!(*writer)->Save(identity, ModelImage(identity)).ok()) _exit(1);
    if (!(*writer)->WaitForCommit(step).ok()) _exit(1);
    if (write(commits, &step, sizeof step) != sizeof step) _exit(1);
  }
}

class Round {
 public:
  Round(OpenStore options, uint64_t first_step, uint64_t save) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    told_ = FileDescriptor(ends[0]);
    const FileDescriptor tell(ends[1]);
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      options.rank = rank;
      options.ranks = kRanks;
      const pid_t child = fork();
      if (child == 0) PlayRank(options, first_step, save, tell.get());
      EXPECT_GT(child, 0);
    }
  }

  /// Kills one of the ranks and writers, then for some time nobody, and then all.
  void KillAll(std::mt19937* random) {
    const auto wait = [&](int most_ms) {
      std::this_thread::sleep_for(std::chrono::microseconds(
          std::uniform_int_distribution<int>(0, most_ms * 1000)(*random)));
    };
    wait(kMostDelayMs);
    std::vector<pid_t> alive = Children();
    std::shuffle(alive.begin(), alive.end(), *random);
    if (!alive.empty()) Kill(alive.front());
    if ((*random)() % 2 == 0) wait(kMostDelayMs / 2);
    // A rank's end leaves its writer to this process.
    while (!(alive = Children()).empty()) Kill(alive.front());
  }

  /// Returns the last step of which a rank has heard that it is committed; 0: none.
  uint64_t LastCommitted() const {
    uint64_t last = 0;
    uint64_t step = 0;
    while (read(told_.get(), &step, sizeof step) == sizeof step) last = std::max(last, step);
    return last;
  }

 private:
  FileDescriptor told_;
};

TEST(WriterKill, WhatWasCommittedStaysAndWhatLooksCommittedIsWhole) {
  AdoptOrphans();
  const int kills = NumberFrom("HARMONAIZE_KILLS", kUsualKills);
  const auto seed = static_cast<unsigned>(NumberFrom("HARMONAIZE_KILL_SEED", 1));
  std::mt19937 random(seed);
  std::string above = ::testing::TempDir() + "harmonaize-kill-XXXXXX";
  ASSERT_NE(mkdtemp(above.data()), nullptr);
  const std::string folder = above + "/store";
  uint64_t last_step = 0;
  int commits = 0;
  int failures = 0;
  for (int i = 0; i < kills && failures == 0; ++i) {
    SCOPED_TRACE(std::to_string(i) + ", seed " + std::to_string(seed));
    Round round({.folder = folder}, last_step + 1, static_cast<uint64_t>(i + 1));
    round.KillAll(&random);
    const uint64_t told = round.LastCommitted();
    const Result<std::vector<CheckpointSummary>> list = ListCheckpoints(folder);
    if (!list.ok()) {
      // Nobody came so far as to make the store.
      EXPECT_EQ(told, 0u);
      EXPECT_EQ(last_step, 0u) << list.status().ToString();
      continue;
    }
    uint64_t newest = 0;
    for (const CheckpointSummary& one : *list) {
      EXPECT_EQ(one.problem, "");
      if (!one.is_committed) continue;
      newest = std::max(newest, one.id.step);
      const Status whole = CheckModel(folder, one.id.step, 1 + i % 3);
      EXPECT_TRUE(whole.ok()) << one.id.step << ": " << whole.ToString();
      failures += whole.ok() ? 0 : 1;
    }
    EXPECT_GE(newest, std::max(told, last_step));
    failures += newest < std::max(told, last_step) ? 1 : 0;
    commits += static_cast<int>(newest - last_step);
    last_step = newest;
  }
  // Kills that come before the first save of all rounds would show nothing.
  EXPECT_GT(commits, kills / 10);
  std::filesystem::remove_all(above);
}

}  // namespace
}  // namespace harmonaize::testing
