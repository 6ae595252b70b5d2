#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include "harmonaize.h"
#include "tests/support/hosts_case.h"
#include "tests/support/rank_runner.h"
#include "tests/support/saved_model.h"

namespace harmonaize::testing {

// Ranks of one host that save checkpoints, and others that read them.

inline constexpr const char* kFirstName = "127.0.0.1:29811";
inline constexpr const char* kLaterName = "127.0.0.1:29812";

/// Gives this process and its children a job of this name.
inline void NameJob(const char* name) {
  setenv("HARMONAIZE_JOB", name, 1);
}

/// A folder for a store, removed at the end.
class StoreFolder {
 public:
  StoreFolder() {
    std::string name = ::testing::TempDir() + "harmonaize-store-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~StoreFolder() {
    // A writer that still removes an old save may remove files first.
    std::error_code failed;
    for (int tries = 0; tries < 100; ++tries) {
      std::filesystem::remove_all(folder_, failed);
      if (!failed) break;
    }
  }
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;

  std::string path() const { return folder_ / "store"; }
  /// Returns the path of a file of requirements with this text.
  std::string RequirementsFile(const std::string& text) const {
    const std::string file = folder_ / "requirements.toml";
    std::ofstream(file) << text;
    return file;
  }

 private:
  std::filesystem::path folder_;
};

/// With `folder` "" checkpoints stay in memory.
inline hzCheckpointer_t MakeSaver(ncclComm_t comm, const std::string& folder = "") {
  hzCheckpointerConfig_t config = HZ_CHECKPOINTER_CONFIG_INITIALIZER;
  if (!folder.empty()) config.folder = folder.c_str();
  hzCheckpointer_t saver = nullptr;
  EXPECT_NCCL(hzCheckpointerCreate(comm, &config, &saver));
  return saver;
}

/// Runs ranks that save these steps, do `last`, and are killed all at once.
inline void SaveAndDie(
    int ranks, const std::vector<uint64_t>& steps,
    const std::function<void(int rank, ncclComm_t, hzCheckpointer_t)>& last = {}) {
  const std::vector<int> statuses = RunAsProcesses(ranks, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kFirstName, ranks, rank, &comm) != ncclSuccess) return 2;
    const hzCheckpointer_t saver = MakeSaver(comm);
    for (const uint64_t step : steps) EXPECT_NCCL(SavedModel(rank, ranks, step).Save(saver));
    EXPECT_NCCL(hzCheckpointWait(saver, steps.back(), hzInMemory, 60'000));
    if (last) last(rank, comm, saver);
    if (::testing::Test::HasFailure()) return 1;
    // All have come so far before the first one is gone.
    EXPECT_EQ(CountRanks(comm), ranks);
    kill(getpid(), SIGKILL);
    return 3;
  });
  for (const int status : statuses) {
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }
}

/// Has so many ranks read the newest checkpoint, and expects it to be that of a step, at a place.
inline void ExpectRead(int ranks, uint64_t step, const std::string& place = "memory",
                       const std::string& folder = "") {
  const std::vector<int> statuses = RunAsProcesses(ranks, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kLaterName, ranks, rank, &comm) != ncclSuccess) return 2;
    hzCheckpoint_t found = nullptr;
    EXPECT_NCCL(hzCheckpointOpen(comm, folder.empty() ? nullptr : folder.c_str(), -1, &found));
    if (found == nullptr) return 3;
    hzCheckpointInfo_t info = HZ_CHECKPOINT_INFO_INITIALIZER;
    EXPECT_NCCL(hzCheckpointGetInfo(found, &info));
    EXPECT_EQ(info.step, step);
    EXPECT_EQ(info.place, place);
    EXPECT_EQ(info.tensors, 5u);
    EXPECT_EQ(SavedModel::Compare(found, rank, ranks, step), "");
    EXPECT_NCCL(hzCheckpointClose(found));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(static_cast<size_t>(ranks), 0));
}

/// Expects that ranks find no checkpoint, all of them.
inline void ExpectNone(int ranks) {
  const std::vector<int> statuses = RunAsProcesses(ranks, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kLaterName, ranks, rank, &comm) != ncclSuccess) return 2;
    hzCheckpoint_t found = nullptr;
    EXPECT_EQ(hzCheckpointOpen(comm, nullptr, -1, &found), ncclSystemError);
    EXPECT_MENTIONS(nullptr, "there is no checkpoint of this job in memory");
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(static_cast<size_t>(ranks), 0));
}

/// Runs ranks that store a step, and are killed.
inline void StoreAndDie(int ranks, uint64_t step, const std::string& folder) {
  const std::vector<int> statuses = RunAsProcesses(ranks, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kFirstName, ranks, rank, &comm) != ncclSuccess) return 2;
    const hzCheckpointer_t saver = MakeSaver(comm, folder);
    EXPECT_NCCL(SavedModel(rank, ranks, step).Save(saver));
    EXPECT_NCCL(hzCheckpointWait(saver, step, hzInStorage, 60'000));
    kill(getpid(), SIGKILL);
    return 3;
  });
  for (const int status : statuses) EXPECT_TRUE(WIFSIGNALED(status)) << status;
}

}  // namespace harmonaize::testing
