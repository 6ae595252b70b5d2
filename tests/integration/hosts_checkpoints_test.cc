// Checkpoints in memory of jobs on several hosts: copies at other hosts, and reading there.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "harmonaize.h"
#include "tests/integration/saving_ranks.h"
#include "tests/support/cluster.h"
#include "tests/support/eventually.h"
#include "tests/support/hosts_case.h"
#include "tests/support/rank_runner.h"
#include "tests/support/saved_model.h"
#include "tests/support/shared_by_processes.h"

namespace harmonaize::testing {
namespace {

/// How many ranks have come so far.
struct Ready {
  std::atomic<int> count{0};
};

/// Each test has daemons of its own: some are killed.
class HostsCheckpoints : public ::testing::Test {
 protected:
  HostsCheckpoints() {
    setenv("HARMONAIZE_JOB", "train", 1);
    std::filesystem::create_directory(store_.path());
    std::filesystem::permissions(store_.path(), std::filesystem::perms(0700));
  }

  /// Runs ranks on these hosts that save two steps, wait until the last one is at a place, and are
  /// killed all at once. With `folder` "" they stay in memory.
  void SaveAndDie(const std::vector<int>& hosts, hzCheckpointPlace_t place,
                  const std::string& folder = "") {
    HostedRanks ranks(&cluster_, hosts);
    const int count = static_cast<int>(hosts.size());
    SharedByProcesses<Ready> ready;
    ranks.Start([&](int rank) {
      ncclComm_t comm = nullptr;
      const ncclUniqueId id = ranks.ShareId(0, rank == 0);
      if (ncclCommInitRank(&comm, count, id, rank) != ncclSuccess) return 2;
      hzCheckpointer_t saver = nullptr;
      hzCheckpointerConfig_t config = HZ_CHECKPOINTER_CONFIG_INITIALIZER;
      if (!folder.empty()) config.folder = folder.c_str();
      EXPECT_NCCL(hzCheckpointerCreate(comm, &config, &saver));
      for (const uint64_t step : {10, 20}) EXPECT_NCCL(SavedModel(rank, count, step).Save(saver));
      EXPECT_NCCL(hzCheckpointWait(saver, 20, place, 60'000));
      if (::testing::Test::HasFailure()) return 1;
      ++ready->count;
      EXPECT_TRUE(Eventually(60, [&] { return ready->count == count; }));
      kill(getpid(), SIGKILL);
      return 3;
    });
    for (const int status : ranks.Wait()) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    }
  }

  /// Has ranks on these hosts read the newest checkpoint, from a place. It is that of SaveAndDie,
  /// or else of step `or_step`, of which it need only be whole.
  void ExpectRead(const std::vector<int>& hosts, const std::string& place,
                  const std::string& folder = "", uint64_t or_step = 20) {
    HostedRanks ranks(&cluster_, hosts);
    const int count = static_cast<int>(hosts.size());
    ranks.Start([&](int rank) {
      ncclComm_t comm = nullptr;
      const ncclUniqueId id = ranks.ShareId(0, rank == 0);
      if (ncclCommInitRank(&comm, count, id, rank) != ncclSuccess) return 2;
      hzCheckpoint_t found = nullptr;
      EXPECT_NCCL(hzCheckpointOpen(comm, folder.empty() ? nullptr : folder.c_str(), -1, &found));
      if (found == nullptr) return 3;
      hzCheckpointInfo_t info = HZ_CHECKPOINT_INFO_INITIALIZER;
      EXPECT_NCCL(hzCheckpointGetInfo(found, &info));
      EXPECT_TRUE(info.step == 20 || info.step == or_step) << info.step;
      EXPECT_EQ(info.place, place);
      if (info.step == 20) {
        EXPECT_EQ(SavedModel::Compare(found, rank, count, 20), "");
      }
      EXPECT_NCCL(hzCheckpointClose(found));
      EXPECT_NCCL(ncclCommDestroy(comm));
      return 0;
    });
    ExpectAllEndWell(&ranks);
  }

  const StoreFolder store_;
  TestCluster cluster_{3, Impatient() + "[checkpoint]\nstore = \"" + store_.path() + "\"\n"};
};

TEST_F(HostsCheckpoints, AreReadOverHostsByOtherNumbersOfRanks) {
  SaveAndDie({0, 1, 2, 2}, hzInMemory);
  ExpectRead({0, 1, 1}, "peer");
  ExpectRead({1, 0}, "peer");
}

TEST_F(HostsCheckpoints, OfAHostThatIsLostACopyIsReadElsewhere) {
  SaveAndDie({0, 0, 1}, hzAtPeer);
  // What ranks 0 and 1 have saved is now only where host 1 has its copies.
  cluster_.daemon(0).Kill();
  ExpectRead({1, 1}, "memory");
}

TEST_F(HostsCheckpoints, EachSaveHasCopiesOfItsOwn) {
  HostedRanks ranks(&cluster_, {0, 1});
  ranks.Start([&](int rank) {
    ncclComm_t comm = nullptr;
    const ncclUniqueId id = ranks.ShareId(0, rank == 0);
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return 2;
    hzCheckpointer_t saver = nullptr;
    EXPECT_NCCL(hzCheckpointerCreate(comm, nullptr, &saver));
    // Both buffers of a rank are used again and again.
    for (uint64_t step = 1; step <= 5; ++step) {
      EXPECT_NCCL(SavedModel(rank, 2, step).Save(saver));
      EXPECT_NCCL(hzCheckpointWait(saver, step, hzAtPeer, 10'000));
    }
    EXPECT_NCCL(hzCheckpointerDestroy(saver));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

TEST_F(HostsCheckpoints, AHostThatHadNoneReadsThemAll) {
  SaveAndDie({0, 1}, hzAtPeer);
  ExpectRead({2, 1, 0}, "peer");
}

TEST_F(HostsCheckpoints, AreInTheProvidersStoreWhenAllHostsAreGone) {
  SaveAndDie({0, 1, 2, 2}, hzInStorage, HZ_PROVIDER_STORE);
  for (int host = 0; host < 3; ++host) cluster_.daemon(host).Kill();
  for (int host = 0; host < 3; ++host) cluster_.Restart(host);
  ExpectRead({0, 1, 1}, "storage", HZ_PROVIDER_STORE);
}

/// Saves one tensor of so many bytes, as this rank's alone.
ncclResult_t SaveBytes(hzCheckpointer_t saver, uint64_t step, int rank, size_t bytes) {
  std::vector<std::byte> data(bytes);
  const std::string name = "bytes" + std::to_string(rank);
  const auto length = static_cast<int64_t>(bytes);
  hzShard_t shard = HZ_SHARD_INITIALIZER;
  shard.name = name.c_str();
  shard.type = hzUint8;
  shard.dimensions = 1;
  shard.global_shape = &length;
  shard.data = data.data();
  return hzCheckpointSave(saver, step, 0, &shard, 1);
}

TEST_F(HostsCheckpoints, ALaterRunTakesNothingAwayBeforeItsOwnHasCopies) {
  SaveAndDie({0, 1}, hzAtPeer);
  // Daemons look for ranks that have gone every two seconds.
  std::this_thread::sleep_for(std::chrono::seconds(4));
  HostedRanks later(&cluster_, {0, 1});
  SharedByProcesses<Ready> ready;
  later.Start([&](int rank) {
    ncclComm_t comm = nullptr;
    const ncclUniqueId id = later.ShareId(0, rank == 0);
    if (ncclCommInitRank(&comm, 2, id, rank) != ncclSuccess) return 2;
    hzCheckpointer_t saver = nullptr;
    EXPECT_NCCL(hzCheckpointerCreate(comm, nullptr, &saver));
    constexpr size_t kBytes = 64 << 20;
    EXPECT_NCCL(SaveBytes(saver, 30, rank, kBytes));
    EXPECT_NCCL(hzCheckpointWait(saver, 30, hzInMemory, 60'000));
    ++ready->count;
    // Copies wait for operations between hosts, so that they are not made in time.
    std::thread([comm] {
      for (float sum = 1;;) ncclAllReduce(&sum, &sum, 1, ncclFloat, ncclSum, comm, nullptr);
    }).detach();
    EXPECT_TRUE(Eventually(60, [&] { return ready->count == 3; }));
    kill(getpid(), SIGKILL);
    return 3;
  });
  EXPECT_TRUE(Eventually(60, [&] { return ready->count == 2; }));
  // What was saved last goes with this host, and what was saved before is whole elsewhere.
  cluster_.daemon(1).Kill();
  ++ready->count;
  later.Wait();
  // On a busy machine operations leave pauses, in which the later one's copies are made after all.
  ExpectRead({0, 2}, "memory", "", 30);
}

TEST_F(HostsCheckpoints, AHostThatHasLostItsPartsReadsThemWhereRankZeroHasAll) {
  SaveAndDie({0, 1}, hzAtPeer);
  // Host 0 has the copy of what host 1 had: to rank 0 it all is in this host's memory.
  cluster_.daemon(1).Kill();
  ExpectRead({0, 2}, "memory");
}

}  // namespace
}  // namespace harmonaize::testing
