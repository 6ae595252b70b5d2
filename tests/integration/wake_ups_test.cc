// What it costs in system calls that ranks and daemon wait for each other: counts, never times.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "harmonaize.h"
#include "src/base/clock.h"
#include "src/base/json_text.h"
#include "src/base/looking.h"
#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

/// Of all ranks together, which here are threads of one process.
struct Counts {
  uint64_t parts = 0;      ///< Operations, counted for every rank.
  uint64_t doorbells = 0;  ///< The ranks woke the daemon.
  uint64_t wakes = 0;      ///< The daemon woke ranks.
};

Counts CountsOf(const DaemonProcess& daemon) {
  const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
  EXPECT_TRUE(status.ok()) << status.status().message();
  const auto document = ReadJson(*status);
  Counts counts;
  for (const auto& process : document["tenants"][0]["processes"]) {
    counts.parts += process["operations"].get<uint64_t>();
    counts.doorbells += process["doorbells"].get<uint64_t>();
    counts.wakes += process["wakes"].get<uint64_t>();
  }
  return counts;
}

constexpr char kAllOffloaded[] = "[inline]\nenabled = false\n";
/// The daemon looks for work for a second before it sleeps: it is awake throughout.
constexpr char kAlwaysAwake[] =
    "[inline]\nenabled = false\n[engine]\nspin_microseconds = 1000000\n";

/// `body` on each rank, and what it has cost.
Counts CountsWith(const std::string& config, int ranks,
                  const std::function<void(ncclComm_t communicator)>& body) {
  const DaemonProcess daemon(config);
  Counts counts;
  RunAsThreads(ranks, [&](int rank, ncclComm_t communicator) {
    body(communicator);
    // What a rank waits for is counted in before it is told.
    if (rank == 0) counts = CountsOf(daemon);
  });
  return counts;
}

void ReduceBlocking(ncclComm_t communicator, int times, size_t count) {
  std::vector<float> data(count, 1.0F);
  for (int i = 0; i < times; ++i) {
    ASSERT_NCCL(
        ncclAllReduce(data.data(), data.data(), count, ncclFloat, ncclMax, communicator, nullptr));
  }
}

TEST(WakeUps, AreOneForARankAndAnOperationAtMost) {
  constexpr int kTimes = 500;
  for (const int ranks : {1, 2, 4}) {
    for (const size_t count : {size_t{2}, size_t{50'000}}) {
      const Counts counts = CountsWith(kAllOffloaded, ranks, [&](ncclComm_t communicator) {
        ReduceBlocking(communicator, kTimes, count);
      });
      EXPECT_EQ(counts.parts, static_cast<uint64_t>(kTimes * ranks)) << ranks;
      EXPECT_LE(counts.doorbells, counts.parts) << ranks << " ranks, " << count;
      EXPECT_LE(counts.wakes, counts.parts) << ranks << " ranks, " << count;
    }
  }
}

TEST(WakeUps, NobodyRingsForADaemonThatIsAwake) {
  constexpr int kTimes = 500;
  const Counts counts = CountsWith(
      kAlwaysAwake, 2, [](ncclComm_t communicator) { ReduceBlocking(communicator, kTimes, 2); });
  EXPECT_EQ(counts.parts, 2u * kTimes);
  // The first of all, for which the daemon had not known yet that it would have to listen.
  EXPECT_LE(counts.doorbells, 2u);
}

/// What operations cost a job with this objective, each of which takes some ten microseconds on a
/// machine that has nothing else to do. Stores how many took as long as a rank looks at most.
Counts CountsOfObjective(const std::string& objective, uint64_t* slow) {
  constexpr int kTimes = 500;
  *slow = 0;
  return CountsWith(std::string(kAlwaysAwake) + "[policy]\nspinning = true\n", 1,
                    [&](ncclComm_t communicator) {
                      ASSERT_NCCL(hzSetRequirements(
                          communicator, ("collectives.objective = '" + objective + "'").c_str()));
                      for (int i = 0; i < kTimes; ++i) {
                        const uint64_t begun_ns = MonotonicNanoseconds();
                        ReduceBlocking(communicator, 1, 100'000);
                        if (MonotonicNanoseconds() - begun_ns >= kLongLookNanoseconds) ++*slow;
                      }
                    });
}

TEST(WakeUps, RanksWaitAsTheirObjectiveSays) {
  uint64_t slow = 0;
  const Counts energy = CountsOfObjective("energy", &slow);
  const Counts latency = CountsOfObjective("latency", &slow);
  EXPECT_EQ(energy.parts, latency.parts);
  EXPECT_GT(energy.wakes, energy.parts / 2) << "the rank sleeps at once";
  EXPECT_LE(latency.wakes, slow) << "the rank looks for two milliseconds";
  // Where the machine is busy with others, most operations may be slow.
  if (slow < energy.wakes / 4) {
    EXPECT_LT(latency.wakes, energy.wakes / 4);
  }
}

TEST(WakeUps, AGroupRingsOnceAndIsWokenOnce) {
  constexpr int kGroups = 50;
  constexpr int kOperations = 64;
  const Counts counts = CountsWith(kAllOffloaded, 2, [](ncclComm_t communicator) {
    std::vector<float> data(kOperations, 1.0F);
    for (int group = 0; group < kGroups; ++group) {
      ASSERT_NCCL(ncclGroupStart());
      for (float& value : data) {
        ASSERT_NCCL(ncclAllReduce(&value, &value, 1, ncclFloat, ncclMax, communicator, nullptr));
      }
      ASSERT_NCCL(ncclGroupEnd());
    }
  });
  EXPECT_EQ(counts.parts, 2u * kGroups * kOperations);
  EXPECT_LE(counts.doorbells, 2u * kGroups);
  EXPECT_LE(counts.wakes, 2u * kGroups);
}

// Far more than the ring holds: who fills it sleeps until half of it is free, and no shorter. Both
// ranks' operations together find room below half of the provider's limit. Beyond that, who posts
// first waits for single operations to end, which is many_operations_test's subject.
TEST(WakeUps, AGroupLargerThanTheRingWaitsForRoom) {
  constexpr size_t kOperations = 16'000;
  const Counts counts = CountsWith(kAllOffloaded, 2, [](ncclComm_t communicator) {
    void* memory = nullptr;
    ASSERT_NCCL(ncclMemAlloc(&memory, kOperations * sizeof(int)));
    int* const data = static_cast<int*>(memory);
    for (size_t i = 0; i < kOperations; ++i) data[i] = static_cast<int>(i);
    ASSERT_NCCL(ncclGroupStart());
    for (size_t i = 0; i < kOperations; ++i) {
      ASSERT_NCCL(ncclAllReduce(data + i, data + i, 1, ncclInt, ncclSum, communicator, nullptr));
    }
    ASSERT_NCCL(ncclGroupEnd());
    for (size_t i = 0; i < kOperations; ++i) ASSERT_EQ(data[i], static_cast<int>(2 * i));
    ASSERT_NCCL(ncclMemFree(memory));
  });
  EXPECT_EQ(counts.parts, 2 * kOperations);
  // 32 000 descriptors are 63 halves of the ring, which both ranks' threads share.
  EXPECT_LE(counts.doorbells, 80u);
  EXPECT_LE(counts.wakes, 80u);
}

// A thread that waits for the last of many operations of a stream is not woken for those before,
// and one that is ahead of the daemon by a whole queue sleeps once for half of it.
TEST(WakeUps, AStreamWakesForWhatIsAwaited) {
  constexpr uint64_t kTimes = 8 * 1024;
  const Counts counts = CountsWith(kAllOffloaded, 2, [](ncclComm_t communicator) {
    cudaStream_t stream;
    ASSERT_NCCL(hzStreamCreate(&stream));
    void* data = nullptr;
    ASSERT_NCCL(ncclMemAlloc(&data, 4096));
    for (uint64_t i = 0; i < kTimes; ++i) {
      ASSERT_NCCL(ncclAllReduce(data, data, 1, ncclFloat, ncclMax, communicator, stream));
    }
    ASSERT_NCCL(hzStreamSynchronize(stream));
    ASSERT_NCCL(hzStreamDestroy(stream));
    ASSERT_NCCL(ncclMemFree(data));
  });
  EXPECT_EQ(counts.parts, 2 * kTimes);
  // Twice 8192 operations are 32 half queues, each of which may find the stream or the ring full;
  // and at the end each rank waits once.
  EXPECT_LE(counts.wakes, 150u);
}

}  // namespace
}  // namespace harmonaize::testing
