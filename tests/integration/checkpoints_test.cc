// Checkpoints that ranks save in memory, and others read after their end.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "harmonaize.h"
#include "src/checkpoint/stored_checkpoint.h"
#include "tests/integration/saving_ranks.h"
#include "tests/support/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/hosts_case.h"
#include "tests/support/other_users.h"
#include "tests/support/rank_runner.h"
#include "tests/support/saved_model.h"

namespace harmonaize::testing {
namespace {

TEST(Checkpoints, AreReadByOtherNumbersOfRanksWhenAllThatSavedAreDead) {
  const DaemonProcess daemon;
  NameJob("train");
  SaveAndDie(4, {10, 20, 30});
  for (const int ranks : {3, 2, 6}) ExpectRead(ranks, 30);
}

TEST(Checkpoints, ASaveThatNotAllHaveEndedLeavesTheOneBefore) {
  const DaemonProcess daemon;
  NameJob("train");
  SaveAndDie(3, {10, 20}, [](int rank, ncclComm_t, hzCheckpointer_t saver) {
    const SavedModel model(rank, 3, 30);
    if (rank != 1) {
      EXPECT_NCCL(model.Save(saver));
      return;
    }
    // Its memory is half written when it dies.
    std::vector<void*> rooms(model.shards().size());
    EXPECT_NCCL(hzCheckpointBegin(saver, 30, 0, model.shards().data(), model.shards().size(),
                                  rooms.data()));
    *static_cast<int*>(rooms[0]) = 1;
  });
  ExpectRead(3, 20);
}

TEST(Checkpoints, TheNewestOfALaterRunTakesThePlaceOfAnEarlierOnes) {
  const DaemonProcess daemon;
  NameJob("train");
  SaveAndDie(2, {100});
  // It goes back, and comes to less than it had.
  SaveAndDie(3, {40, 50});
  ExpectRead(2, 50);
}

TEST(Checkpoints, RanksThatSaveDifferentStepsAreTold) {
  const DaemonProcess daemon;
  NameJob("train");
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kFirstName, 2, rank, &comm) != ncclSuccess) return 2;
    const hzCheckpointer_t saver = MakeSaver(comm);
    const auto step = static_cast<uint64_t>(7 + rank);
    // The one that comes last is told at once, the other with its next save.
    const ncclResult_t first = SavedModel(rank, 2, step).Save(saver);
    const ncclResult_t second = SavedModel(rank, 2, 9).Save(saver);
    EXPECT_TRUE(first == ncclInvalidUsage || second == ncclInvalidUsage);
    EXPECT_MENTIONS(nullptr, "ranks save different steps at the same time");
    EXPECT_EQ(CountRanks(comm), 2) << "the communicator goes on";
    EXPECT_NCCL(hzCheckpointerDestroy(saver));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(2, 0));
}

TEST(Checkpoints, OneThatIsOverwrittenWhileItIsReadIsNotTakenForGood) {
  const DaemonProcess daemon;
  NameJob("train");
  const std::vector<int> statuses = RunAsProcesses(1, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kFirstName, 1, rank, &comm) != ncclSuccess) return 2;
    const hzCheckpointer_t saver = MakeSaver(comm);
    int value = 1;
    hzShard_t shard = HZ_SHARD_INITIALIZER;
    shard.name = "value";
    shard.type = hzInt32;
    shard.data = &value;
    EXPECT_NCCL(hzCheckpointSave(saver, 1, 0, &shard, 1));
    hzCheckpoint_t found = nullptr;
    EXPECT_NCCL(hzCheckpointOpen(comm, nullptr, -1, &found));
    if (::testing::Test::HasFailure()) return 1;
    EXPECT_NCCL(hzCheckpointRead(found, &shard, 1));
    EXPECT_EQ(value, 1);
    // Two buffers take turns.
    for (value = 2; value <= 3; ++value) {
      EXPECT_NCCL(hzCheckpointSave(saver, static_cast<uint64_t>(value), 0, &shard, 1));
    }
    EXPECT_EQ(hzCheckpointRead(found, &shard, 1), ncclSystemError);
    EXPECT_MENTIONS(nullptr, "while it was read");
    EXPECT_NCCL(hzCheckpointClose(found));
    EXPECT_NCCL(hzCheckpointerDestroy(saver));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(1, 0));
}

TEST(Checkpoints, TheMemoryIsGivenBackAtTheEnd) {
  const DaemonProcess daemon;
  NameJob("train");
  const int before = daemon.OpenDescriptors();
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kFirstName, 2, rank, &comm) != ncclSuccess) return 2;
    const hzCheckpointer_t saver = MakeSaver(comm);
    for (uint64_t step = 1; step <= 3; ++step) EXPECT_NCCL(SavedModel(rank, 2, step).Save(saver));
    EXPECT_EQ(CountRanks(comm), 2);
    EXPECT_NCCL(hzCheckpointerDestroy(saver));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(2, 0));
  EXPECT_TRUE(daemon.SettlesTo(before));
  ExpectNone(2);
}

TEST(Checkpoints, TheirMemoryIsGivenBackSomeTimeAfterTheJob) {
  const DaemonProcess daemon("[checkpoint]\nkeep_seconds = 0.5\n");
  NameJob("train");
  const int before = daemon.OpenDescriptors();
  SaveAndDie(2, {10});
  EXPECT_TRUE(daemon.SettlesTo(before));
  ExpectNone(2);
}

TEST(Checkpoints, AProcessTakesMemoryBackThatTheDaemonHasLetGo) {
  const DaemonProcess daemon("[checkpoint]\nkeep_seconds = 0.5\n");
  NameJob("train");
  const std::vector<int> statuses = RunAsProcesses(1, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kFirstName, 1, rank, &comm) != ncclSuccess) return 2;
    const int before = daemon.OpenDescriptors();
    const hzCheckpointer_t saver = MakeSaver(comm);
    for (uint64_t step = 1; step <= 3; ++step) EXPECT_NCCL(SavedModel(rank, 1, step).Save(saver));
    EXPECT_GE(daemon.OpenDescriptors(), before + 2) << "two buffers";
    EXPECT_NCCL(ncclCommDestroy(comm));
    // The process goes on, as one does that makes another communicator after a loss.
    EXPECT_TRUE(Eventually(30, [&] { return daemon.OpenDescriptors() <= before; }));
    EXPECT_NCCL(hzCheckpointerDestroy(saver));
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(1, 0));
}

TEST(Checkpoints, NobodyElseReadsThem) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const DaemonProcess daemon;
  std::filesystem::permissions(daemon.folder(), std::filesystem::perms(0755));
  NameJob("train");
  SaveAndDie(2, {10});
  const pid_t stranger = StartAs(kAlice, [] {
    ExpectNone(2);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(StatusOf(stranger), 0);
  NameJob("another");
  ExpectNone(2);
  NameJob("train");
  ExpectRead(2, 10);
}

TEST(Checkpoints, NobodyTakesMoreMemoryThanItMay) {
  const DaemonProcess daemon("[quota]\ncheckpoint_bytes = 1_500_000\n");
  NameJob("train");
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kFirstName, 2, rank, &comm) != ncclSuccess) return 2;
    const hzCheckpointer_t saver = MakeSaver(comm);
    std::vector<std::byte> data(1 << 20);
    const int64_t length = static_cast<int64_t>(data.size());
    hzShard_t shard = HZ_SHARD_INITIALIZER;
    const std::string name = "large." + std::to_string(rank);
    shard.name = name.c_str();
    shard.type = hzUint8;
    shard.dimensions = 1;
    shard.global_shape = &length;
    shard.data = data.data();
    const ncclResult_t saved = hzCheckpointSave(saver, 1, 0, &shard, 1);
    if (saved != ncclSuccess) {
      EXPECT_EQ(saved, ncclInvalidUsage);
      EXPECT_MENTIONS(nullptr, "bytes of checkpoints in memory");
    }
    int counts[2] = {saved == ncclSuccess ? 1 : 0, 1};
    EXPECT_NCCL(ncclAllReduce(counts, counts, 2, ncclInt, ncclSum, comm, nullptr));
    EXPECT_EQ(counts[0], 1) << "the first one has taken what there is";
    EXPECT_EQ(counts[1], 2) << "the communicator goes on";
    EXPECT_NCCL(hzCheckpointerDestroy(saver));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(2, 0));
}

TEST(StoredCheckpoints, AreReadByOtherNumbersOfRanksWhenTheDaemonIsGone) {
  const StoreFolder store;
  {
    const DaemonProcess daemon;
    NameJob("train");
    const std::vector<int> statuses = RunAsProcesses(4, [&](int rank) {
      ncclComm_t comm = nullptr;
      if (JoinNamed(kFirstName, 4, rank, &comm) != ncclSuccess) return 2;
      const hzCheckpointer_t saver = MakeSaver(comm, store.path());
      for (uint64_t step = 1; step <= 5; ++step) {
        const int flags = step == 2 ? HZ_CHECKPOINT_EPOCH_END : 0;
        EXPECT_NCCL(SavedModel(rank, 4, step).Save(saver, flags));
      }
      for (const uint64_t step : {4, 5}) {
        EXPECT_NCCL(hzCheckpointWait(saver, step, hzInStorage, 60'000));
      }
      EXPECT_NCCL(hzCheckpointerDestroy(saver));
      EXPECT_NCCL(ncclCommDestroy(comm));
      return 0;
    });
    EXPECT_EQ(statuses, std::vector<int>(4, 0));
  }
  const DaemonProcess another;
  for (const int ranks : {3, 2, 6}) ExpectRead(ranks, 5, "storage", store.path());
  // Without a daemon, and by the step: the end of an epoch stays, beside the newest two.
  for (const uint64_t step : {2, 4, 5}) {
    hzCheckpoint_t found = nullptr;
    EXPECT_NCCL(
        hzCheckpointOpen(nullptr, store.path().c_str(), static_cast<int64_t>(step), &found));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(SavedModel::Compare(found, 0, 1, step), "");
    EXPECT_NCCL(hzCheckpointClose(found));
  }
  // A writer that has committed tidies up behind it.
  EXPECT_TRUE(Eventually(30, [&] {
    hzCheckpoint_t found = nullptr;
    const ncclResult_t opened = hzCheckpointOpen(nullptr, store.path().c_str(), 3, &found);
    if (opened == ncclSuccess) {
      EXPECT_NCCL(hzCheckpointClose(found));
    }
    return opened == ncclSystemError;
  }));
}

TEST(StoredCheckpoints, AreStoredByWritersThatOutliveTheirRanks) {
  const StoreFolder store;
  {
    const DaemonProcess daemon;
    NameJob("train");
    const std::vector<int> statuses = RunAsProcesses(3, [&](int rank) {
      ncclComm_t comm = nullptr;
      if (JoinNamed(kFirstName, 3, rank, &comm) != ncclSuccess) return 2;
      const hzCheckpointer_t saver = MakeSaver(comm, store.path());
      EXPECT_NCCL(SavedModel(rank, 3, 10).Save(saver));
      EXPECT_NCCL(hzCheckpointWait(saver, 10, hzInMemory, 60'000));
      kill(getpid(), SIGKILL);
      return 3;
    });
    for (const int status : statuses) EXPECT_TRUE(WIFSIGNALED(status)) << status;
    // The nearest copy is taken while it is there.
    ExpectRead(2, 10, "memory", store.path());
  }
  const auto committed = [&] {
    hzCheckpoint_t found = nullptr;
    if (hzCheckpointOpen(nullptr, store.path().c_str(), 10, &found) != ncclSuccess) return false;
    return hzCheckpointClose(found) == ncclSuccess;
  };
  EXPECT_TRUE(Eventually(30, committed));
  const DaemonProcess another;
  ExpectRead(2, 10, "storage", store.path());
}

TEST(StoredCheckpoints, ANewerOneOfARunElsewhereGoesBeforeWhatIsStillInMemory) {
  const StoreFolder store;
  const DaemonProcess first;
  NameJob("train");
  StoreAndDie(2, 10, store.path());
  {
    const DaemonProcess elsewhere;
    StoreAndDie(3, 20, store.path());
  }
  setenv("HARMONAIZE_SOCKET", first.socket_path().c_str(), 1);
  ExpectRead(2, 20, "storage", store.path());
  // What is asked for by its step is taken from where it is nearest.
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kLaterName, 2, rank, &comm) != ncclSuccess) return 2;
    hzCheckpoint_t found = nullptr;
    EXPECT_NCCL(hzCheckpointOpen(comm, store.path().c_str(), 10, &found));
    if (found == nullptr) return 3;
    hzCheckpointInfo_t info = HZ_CHECKPOINT_INFO_INITIALIZER;
    EXPECT_NCCL(hzCheckpointGetInfo(found, &info));
    EXPECT_STREQ(info.place, "memory");
    EXPECT_EQ(SavedModel::Compare(found, rank, 2, 10), "");
    EXPECT_NCCL(hzCheckpointClose(found));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(2, 0));
}

TEST(StoredCheckpoints, AFolderThatCannotBeWrittenIsToldAndTheJobGoesOn) {
  const DaemonProcess daemon;
  NameJob("train");
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    if (JoinNamed(kFirstName, 2, rank, &comm) != ncclSuccess) return 2;
    const hzCheckpointer_t saver = MakeSaver(comm, "/dev/null/store");
    for (uint64_t step = 1; step <= 4; ++step) EXPECT_NCCL(SavedModel(rank, 2, step).Save(saver));
    EXPECT_NCCL(hzCheckpointWait(saver, 4, hzInMemory, 60'000));
    EXPECT_EQ(hzCheckpointWait(saver, 4, hzInStorage, 60'000), ncclSystemError);
    EXPECT_MENTIONS(nullptr, "/dev/null/store");
    hzCheckpointState_t state = HZ_CHECKPOINT_STATE_INITIALIZER;
    EXPECT_NCCL(hzCheckpointLook(saver, 4, &state));
    EXPECT_TRUE(state.is_in_memory == 1 && state.is_stored == 0 && state.has_failed == 1);
    EXPECT_EQ(CountRanks(comm), 2);
    EXPECT_NCCL(hzCheckpointerDestroy(saver));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(2, 0));
}

/// Has two ranks, whose job's requirements are in `requirements`, store the steps 1 to 4.
void StoreFourSteps(const hzCheckpointerConfig_t& config, const std::string& requirements) {
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    setenv("HARMONAIZE_REQUIREMENTS", requirements.c_str(), 1);
    ncclComm_t comm = nullptr;
    if (JoinNamed(kFirstName, 2, rank, &comm) != ncclSuccess) return 2;
    hzCheckpointer_t saver = nullptr;
    EXPECT_NCCL(hzCheckpointerCreate(comm, &config, &saver));
    for (uint64_t step = 1; step <= 4; ++step) EXPECT_NCCL(SavedModel(rank, 2, step).Save(saver));
    EXPECT_NCCL(hzCheckpointWait(saver, 4, hzInStorage, 60'000));
    EXPECT_EQ(CountRanks(comm), 2);
    EXPECT_NCCL(hzCheckpointerDestroy(saver));
    EXPECT_NCCL(ncclCommDestroy(comm));
    return 0;
  });
  EXPECT_EQ(statuses, std::vector<int>(2, 0));
}

/// Returns the steps that a store has in the end, of checkpoints in this form; others show as 0.
std::vector<uint64_t> StepsIn(const std::string& folder, checkpoint::StoreFormat format) {
  std::vector<uint64_t> steps;
  const Result<std::vector<checkpoint::CheckpointSummary>> list =
      checkpoint::ListCheckpoints(folder);
  EXPECT_TRUE(list.ok()) << list.status().message();
  if (!list.ok()) return steps;
  for (const checkpoint::CheckpointSummary& one : *list) {
    steps.push_back(one.is_committed && one.format == format ? one.id.step : 0);
  }
  return steps;
}

TEST(StoredCheckpoints, AreKeptAsTheJobsRequirementsStateUnlessTheProgramSaysIt) {
  const DaemonProcess daemon;
  NameJob("train");
  const std::string text = "[checkpoint]\nkeep = 1\nformat = \"dcp\"\n";
  hzCheckpointerConfig_t config = HZ_CHECKPOINTER_CONFIG_INITIALIZER;
  const StoreFolder stated;
  const std::string stated_path = stated.path();
  config.folder = stated_path.c_str();
  StoreFourSteps(config, stated.RequirementsFile(text));
  EXPECT_TRUE(Eventually(30, [&] {
    return StepsIn(stated_path, checkpoint::StoreFormat::kDcp) == std::vector<uint64_t>{4};
  }));
  const StoreFolder own;
  const std::string own_path = own.path();
  config.folder = own_path.c_str();
  config.keep = 3;
  config.format = "safetensors";
  StoreFourSteps(config, own.RequirementsFile(text));
  const std::vector<uint64_t> three = {4, 3, 2};
  EXPECT_TRUE(Eventually(
      30, [&] { return StepsIn(own_path, checkpoint::StoreFormat::kSafetensors) == three; }));
}

TEST(StoredCheckpoints, AreTheNewestTwoInTheFormOfSafetensorsWhereNobodySaysMore) {
  const DaemonProcess daemon;
  NameJob("train");
  const StoreFolder store;
  const std::string path = store.path();
  hzCheckpointerConfig_t config = HZ_CHECKPOINTER_CONFIG_INITIALIZER;
  config.folder = path.c_str();
  StoreFourSteps(config, store.RequirementsFile("[checkpoint]\ninterval = \"1 h\"\n"));
  const std::vector<uint64_t> two = {4, 3};
  EXPECT_TRUE(
      Eventually(30, [&] { return StepsIn(path, checkpoint::StoreFormat::kSafetensors) == two; }));
}

}  // namespace
}  // namespace harmonaize::testing
