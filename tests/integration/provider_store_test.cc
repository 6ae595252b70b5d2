// Checkpoints in the provider's store, which the daemon writes and reads back.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "harmonaize.h"
#include "tests/integration/saving_ranks.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/other_users.h"

namespace harmonaize::testing {
namespace {

namespace fs = std::filesystem;

/// Makes the folder of a provider that stores checkpoints, if it is not there. Returns the
/// provider's configuration.
std::string Storing(const std::string& folder, const std::string& quota = "") {
  if (fs::create_directory(folder)) fs::permissions(folder, fs::perms(0700));
  return fmt::format("[checkpoint]\nstore = \"{}\"\n{}", folder, quota);
}

/// Returns the steps of the committed checkpoints below a folder.
std::set<uint64_t> StepsBelow(const std::string& folder) {
  std::set<uint64_t> steps;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.path().filename() != "checkpoint.json") continue;
    steps.insert(std::stoull(entry.path().parent_path().filename().string()));
  }
  return steps;
}

/// Runs ranks that save these steps into the provider's store, and end in good order once the last
/// one is there. The second is the end of an epoch.
void Store(int ranks, const std::vector<uint64_t>& steps) {
  const std::vector<int> statuses = RunAsProcesses(ranks, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kFirstName, ranks, rank, &comm) != ncclSuccess) return 2;
    const hzCheckpointer_t saver = MakeSaver(comm, HZ_PROVIDER_STORE);
    for (size_t i = 0; i < steps.size(); ++i) {
      const int flags = i == 1 ? HZ_CHECKPOINT_EPOCH_END : 0;
      EXPECT_NCCL(SavedModel(rank, ranks, steps[i]).Save(saver, flags));
    }
    EXPECT_NCCL(hzCheckpointWait(saver, steps.back(), hzInStorage, 60'000));
    hzCheckpointState_t state = HZ_CHECKPOINT_STATE_INITIALIZER;
    EXPECT_NCCL(hzCheckpointLook(saver, steps.back(), &state));
    EXPECT_TRUE(state.is_stored == 1 && state.has_failed == 0);
    EXPECT_NCCL(hzCheckpointerDestroy(saver));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(static_cast<size_t>(ranks), 0));
}

TEST(ProviderStore, IsReadByOtherNumbersOfRanksWhenTheDaemonIsGone) {
  const StoreFolder store;
  NameJob("train");
  {
    const DaemonProcess daemon(Storing(store.path()));
    Store(4, {1, 2, 3, 4, 5});
    EXPECT_TRUE(Eventually(30, [&] {
      return StepsBelow(store.path()) == std::set<uint64_t>({2, 4, 5});
    })) << "the newest two stay, and the end of an epoch";
  }
  const DaemonProcess another(Storing(store.path()));
  for (const int ranks : {3, 2, 6}) ExpectRead(ranks, 5, "storage", HZ_PROVIDER_STORE);
}

TEST(ProviderStore, HasWhatRanksHaveSavedThatWereKilledAtOnce) {
  const StoreFolder store;
  NameJob("train");
  {
    const DaemonProcess daemon(Storing(store.path()));
    const std::vector<int> statuses = RunAsProcesses(3, [&](int rank) {
      ncclComm_t comm = nullptr;
      if (JoinNamed(kFirstName, 3, rank, &comm) != ncclSuccess) return 2;
      const hzCheckpointer_t saver = MakeSaver(comm, HZ_PROVIDER_STORE);
      EXPECT_NCCL(SavedModel(rank, 3, 10).Save(saver));
      EXPECT_NCCL(hzCheckpointWait(saver, 10, hzInMemory, 60'000));
      kill(getpid(), SIGKILL);
      return 3;
    });
    for (const int status : statuses) EXPECT_TRUE(WIFSIGNALED(status)) << status;
    // The nearest copy is taken while it is there.
    ExpectRead(2, 10, "memory", HZ_PROVIDER_STORE);
    EXPECT_TRUE(Eventually(30, [&] { return StepsBelow(store.path()).contains(10); }));
  }
  const DaemonProcess another(Storing(store.path()));
  ExpectRead(2, 10, "storage", HZ_PROVIDER_STORE);
}

TEST(ProviderStore, GivesNobodyWhatIsAnothers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const StoreFolder store;
  NameJob("train");
  {
    const DaemonProcess daemon(Storing(store.path()));
    Store(2, {10, 20});
  }
  const DaemonProcess daemon(Storing(store.path()));
  fs::permissions(daemon.folder(), fs::perms(0755));
  const auto expect_none = [] {
    const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
      ncclComm_t comm = nullptr;
      if (JoinNamed(kLaterName, 2, rank, &comm) != ncclSuccess) return 2;
      hzCheckpoint_t found = nullptr;
      EXPECT_EQ(hzCheckpointOpen(comm, HZ_PROVIDER_STORE, -1, &found), ncclSystemError);
      EXPECT_MENTIONS(nullptr, "or in the provider's store");
      EXPECT_NCCL(ncclCommDestroy(comm));
      return 0;
    });
    EXPECT_EQ(statuses, std::vector<int>(2, 0));
  };
  const pid_t stranger = StartAs(kAlice, [&] {
    expect_none();
    // Not past the daemon either, even where the folder above can be entered.
    EXPECT_NE(access(store.path().c_str(), X_OK), 0);
    Store(2, {7, 8});
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(StatusOf(stranger), 0);
  NameJob("another");
  expect_none();
  NameJob("train");
  ExpectRead(2, 20, "storage", HZ_PROVIDER_STORE);
  for (const fs::directory_entry& user : fs::directory_iterator(store.path())) {
    EXPECT_EQ(user.status().permissions(), fs::perms(0700)) << user.path();
  }
}

/// Returns a shard that is a whole tensor of bytes, whose length outlives it.
hzShard_t WholeTensor(const char* name, const int64_t* length, void* data) {
  static const int64_t kFirst = 0;
  hzShard_t shard = HZ_SHARD_INITIALIZER;
  shard.name = name;
  shard.type = hzUint8;
  shard.dimensions = 1;
  shard.global_shape = length;
  shard.offset = &kFirst;
  shard.shape = length;
  shard.data = data;
  return shard;
}

/// Flips all bits of the last byte of the smallest file of those that checkpoints consist of.
void FlipSmallestObject(const std::string& folder) {
  fs::path smallest;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const bool is_object = entry.path().extension() == ".safetensors";
    if (!is_object || !entry.is_regular_file()) continue;
    if (smallest.empty() || entry.file_size() < fs::file_size(smallest)) smallest = entry.path();
  }
  ASSERT_FALSE(smallest.empty());
  fs::permissions(smallest, fs::perms(0600));
  std::fstream file(smallest, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const auto flipped = static_cast<char>(~file.get());
  file.seekp(-1, std::ios::end);
  file.put(flipped);
}

TEST(ProviderStore, WhatTheDaemonHasGivenBackIsReadAnewAndNotAsZeros) {
  const StoreFolder store;
  NameJob("train");
  const DaemonProcess daemon(Storing(store.path()));
  const std::vector<int> statuses = RunAsProcesses(1, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kFirstName, 1, rank, &comm) != ncclSuccess) return 2;
    // Their part has three files, of which "a" has the first two and "b" the last.
    const int64_t length = 20 << 20;
    std::vector<unsigned char> a(length, 'a');
    std::vector<unsigned char> b(length, 'b');
    const hzShard_t shards[] = {WholeTensor("a", &length, a.data()),
                                WholeTensor("b", &length, b.data())};
    const hzCheckpointer_t saver = MakeSaver(comm, HZ_PROVIDER_STORE);
    EXPECT_NCCL(hzCheckpointSave(saver, 1, 0, shards, 2));
    EXPECT_NCCL(hzCheckpointWait(saver, 1, hzInStorage, 60'000));
    EXPECT_NCCL(hzCheckpointerDestroy(saver));
    hzCheckpoint_t found = nullptr;
    EXPECT_NCCL(hzCheckpointOpen(comm, HZ_PROVIDER_STORE, -1, &found));
    if (::testing::Test::HasFailure()) return 1;
    // The daemon gives all back that it has brought here once something cannot be read.
    FlipSmallestObject(store.path());
    EXPECT_NE(hzCheckpointRead(found, &shards[1], 1), ncclSuccess);
    FlipSmallestObject(store.path());
    std::fill(a.begin(), a.end(), 0);
    EXPECT_NCCL(hzCheckpointRead(found, &shards[0], 1));
    EXPECT_EQ(std::count(a.begin(), a.end(), 'a'), length);
    EXPECT_NCCL(hzCheckpointRead(found, &shards[1], 1));
    EXPECT_EQ(std::count(b.begin(), b.end(), 'b'), length);
    EXPECT_NCCL(hzCheckpointClose(found));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(1, 0));
}

/// Runs two ranks that save a step which is not stored, and do `then` afterwards.
void ExpectNotStored(uint64_t step, const std::function<void(int rank, hzCheckpointer_t)>& then) {
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kFirstName, 2, rank, &comm) != ncclSuccess) return 2;
    const hzCheckpointer_t saver = MakeSaver(comm, HZ_PROVIDER_STORE);
    EXPECT_NCCL(SavedModel(rank, 2, step).Save(saver));
    EXPECT_NCCL(hzCheckpointWait(saver, step, hzInMemory, 60'000));
    EXPECT_EQ(hzCheckpointWait(saver, step, hzInStorage, 60'000), ncclInvalidUsage);
    EXPECT_MENTIONS(nullptr, "checkpoint.lost says why");
    EXPECT_EQ(CountRanks(comm), 2) << "the job goes on";
    then(rank, saver);
    EXPECT_NCCL(hzCheckpointerDestroy(saver));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(2, 0));
}

TEST(ProviderStore, AFullDiskCostsTheSaveAndNotTheJob) {
  const StoreFolder folder;
  const std::string disk = folder.path();
  fs::create_directory(disk);
  if (mount("none", disk.c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) {
    GTEST_SKIP() << "no file system can be mounted here";
  }
  NameJob("train");
  {
    const DaemonProcess daemon(Storing(disk), true);
    ExpectNotStored(10, [&](int rank, hzCheckpointer_t saver) {
      if (rank == 0) {
        EXPECT_EQ(mount("none", disk.c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
      }
      EXPECT_NCCL(SavedModel(rank, 2, 11).Save(saver));
      // Rank 1 may have saved before rank 0 has made room.
      if (hzCheckpointWait(saver, 11, hzInStorage, 60'000) == ncclSuccess) return;
      EXPECT_NCCL(SavedModel(rank, 2, 12).Save(saver));
      EXPECT_NCCL(hzCheckpointWait(saver, 12, hzInStorage, 60'000));
    });
    EXPECT_TRUE(daemon.WaitForLog("No space left on device"));
    EXPECT_FALSE(StepsBelow(disk).contains(10));
    EXPECT_FALSE(StepsBelow(disk).empty());
  }
  EXPECT_EQ(umount(disk.c_str()), 0);
}

TEST(ProviderStore, AUserHasNoMoreThereThanTheQuota) {
  const StoreFolder store;
  const DaemonProcess daemon(Storing(store.path(), "[quota]\nstored_bytes = 10_000\n"), true);
  NameJob("train");
  ExpectNotStored(10, [](int, hzCheckpointer_t) {});
  EXPECT_TRUE(daemon.WaitForLog("quota.stored_bytes"));
  EXPECT_TRUE(StepsBelow(store.path()).empty());
}

TEST(ProviderStore, IsSaidToBeMissingBeforeAnythingIsSaved) {
  const DaemonProcess daemon;
  NameJob("train");
  const std::vector<int> statuses = RunAsProcesses(1, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kFirstName, 1, rank, &comm) != ncclSuccess) return 2;
    hzCheckpointerConfig_t config = HZ_CHECKPOINTER_CONFIG_INITIALIZER;
    config.folder = HZ_PROVIDER_STORE;
    hzCheckpointer_t saver = nullptr;
    EXPECT_EQ(hzCheckpointerCreate(comm, &config, &saver), ncclInvalidUsage);
    EXPECT_MENTIONS(nullptr, "this provider stores no checkpoints");
    hzCheckpoint_t found = nullptr;
    EXPECT_EQ(hzCheckpointOpen(nullptr, HZ_PROVIDER_STORE, -1, &found), ncclInvalidArgument);
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(1, 0));
}

TEST(ProviderStore, ThatIsGoneIsNotTakenForAnEmptyOne) {
  const StoreFolder store;
  NameJob("train");
  {
    const DaemonProcess daemon(Storing(store.path()));
    Store(2, {10, 20});
  }
  const std::string aside = store.path() + ".aside";
  fs::rename(store.path(), aside);
  const DaemonProcess daemon("[checkpoint]\nstore = \"" + store.path() + "\"\n", true);
  EXPECT_TRUE(daemon.WaitForLog("which has to exist with mode 0700"));
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kLaterName, 2, rank, &comm) != ncclSuccess) return 2;
    hzCheckpoint_t found = nullptr;
    EXPECT_EQ(hzCheckpointOpen(comm, HZ_PROVIDER_STORE, -1, &found), ncclSystemError);
    EXPECT_MENTIONS(nullptr, "the provider's store cannot be read now");
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(2, 0));
  ExpectNotStored(30, [](int, hzCheckpointer_t) {});
  EXPECT_FALSE(fs::exists(store.path()));
  fs::rename(aside, store.path());
  ExpectRead(2, 20, "storage", HZ_PROVIDER_STORE);
}

TEST(ProviderStore, IsNoFolderThatOthersMayEnter) {
  const StoreFolder store;
  const std::string config = Storing(store.path());
  fs::permissions(store.path(), fs::perms(0755));
  const DaemonProcess daemon(config, true);
  EXPECT_TRUE(daemon.WaitForLog("others may enter " + store.path()));
  NameJob("train");
  ExpectNotStored(10, [](int, hzCheckpointer_t) {});
  EXPECT_TRUE(fs::is_empty(store.path()));
}

}  // namespace
}  // namespace harmonaize::testing
