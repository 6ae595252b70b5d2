// How communicators that span hosts come, change, fail and go: what communicators_test.cc and
// errors_test.cc prove of one host.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "harmonaize.h"
#include "tests/support/cluster.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

bool Mentions(ncclComm_t communicator, const std::string& text) {
  return std::string(ncclGetLastError(communicator)).find(text) != std::string::npos;
}
#define EXPECT_MENTIONS(communicator, text) \
  EXPECT_TRUE(Mentions(communicator, text)) << ncclGetLastError(communicator)

/// An all-reduce of ones: the number of ranks that took part; else minus the error.
int CountRanks(ncclComm_t communicator) {
  int one = 1;
  int sum = 0;
  const ncclResult_t result = ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, communicator, nullptr);
  return result == ncclSuccess ? sum : -static_cast<int>(result);
}

ncclResult_t AllReduce(ncclComm_t communicator, size_t count, ncclDataType_t type = ncclFloat,
                       ncclRedOp_t op = ncclSum) {
  std::vector<double> data(count);
  return ncclAllReduce(data.data(), data.data(), count, type, op, communicator, nullptr);
}

/// What a rank of `communicator` finds of itself.
int RankIn(ncclComm_t communicator) {
  int rank = -1;
  EXPECT_NCCL(ncclCommUserRank(communicator, &rank));
  return rank;
}

double SecondsSince(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

/// Until the state is no longer ncclInProgress.
ncclResult_t Await(ncclComm_t communicator) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    if (ncclCommGetAsyncError(communicator, &state) != ncclSuccess) return ncclInternalError;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return state;
}

void ExpectAllEndWell(HostedRanks* ranks) {
  const std::vector<int> statuses = ranks->Wait();
  for (size_t rank = 0; rank < statuses.size(); ++rank) {
    EXPECT_EQ(statuses[rank], 0) << "rank " << rank;
  }
}

constexpr double kFormationTimeoutSeconds = kSanitized ? 3 : 1.5;
// Enough after late_after_seconds for the report to have come.
constexpr milliseconds kLate(kSanitized ? 1200 : 600);

std::string Impatient() {
  return fmt::format("[ranks]\nlate_after_seconds = 0.2\nformation_timeout_seconds = {}\n",
                     kFormationTimeoutSeconds);
}

class HostsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cluster_ = new TestCluster(4, Impatient()); }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }
  static TestCluster* cluster_;
};
TestCluster* HostsTest::cluster_ = nullptr;

// ---------------------------------------------------------------------------------------------
// Children

TEST_F(HostsTest, SplitIntoOneHostSeveralHostsAndHostsWithoutTheHome) {
  // Rank 0 makes the id, so host 0 is the home.
  RunOnHosts(cluster_, {0, 0, 1, 1, 2, 2}, [](int rank, ncclComm_t world) {
    ncclComm_t part = nullptr;
    // By host, in reverse.
    ASSERT_NCCL(ncclCommSplit(world, rank / 2, -rank, &part, nullptr));
    EXPECT_EQ(RankIn(part), 1 - rank % 2);
    EXPECT_EQ(CountRanks(part), 2);
    EXPECT_NCCL(ncclCommDestroy(part));
    // Across hosts.
    ASSERT_NCCL(ncclCommSplit(world, rank % 2, rank, &part, nullptr));
    EXPECT_EQ(RankIn(part), rank / 2);
    EXPECT_EQ(CountRanks(part), 3);
    EXPECT_NCCL(ncclCommDestroy(part));
    // The ranks of hosts 1 and 2, whose home has no rank in it; those of host 0 take no part.
    const int color = rank < 2 ? NCCL_SPLIT_NOCOLOR : 7;
    ASSERT_NCCL(ncclCommSplit(world, color, 10 - rank, &part, nullptr));
    if (rank < 2) {
      EXPECT_EQ(part, nullptr);
    } else {
      EXPECT_EQ(RankIn(part), 5 - rank);
      EXPECT_EQ(CountRanks(part), 4);
      int value = rank;
      EXPECT_NCCL(ncclBroadcast(&value, &value, 1, ncclInt, 2, part, nullptr));
      EXPECT_EQ(value, 3);
      // And a child of the child, again without its first host.
      ncclComm_t grandchild = nullptr;
      ASSERT_NCCL(ncclCommSplit(part, rank % 2, 0, &grandchild, nullptr));
      EXPECT_EQ(CountRanks(grandchild), 2);
      EXPECT_NCCL(ncclCommDestroy(grandchild));
      EXPECT_NCCL(ncclCommDestroy(part));
    }
    EXPECT_EQ(CountRanks(world), 6);
  });
}

TEST_F(HostsTest, WhoTakesNoPartInASplitMayBeGoneBeforeTheOthersCome) {
  RunOnHosts(cluster_, {0, 1, 2, 1}, [](int rank, ncclComm_t world) {
    if (rank == 2) {
      ncclComm_t none = nullptr;
      EXPECT_NCCL(ncclCommSplit(world, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr));
      return;
    }
    std::this_thread::sleep_for(milliseconds(100));
    ncclComm_t part = nullptr;
    ASSERT_NCCL(ncclCommSplit(world, 0, rank, &part, nullptr));
    EXPECT_EQ(CountRanks(part), 3);
    EXPECT_NCCL(ncclCommDestroy(part));
  });
}

TEST_F(HostsTest, ASplitOfARankThatLeftFails) {
  RunOnHosts(cluster_, {0, 1, 2}, [](int rank, ncclComm_t world) {
    if (rank == 1) return;
    if (rank == 2) std::this_thread::sleep_for(milliseconds(50));
    ncclComm_t part = nullptr;
    EXPECT_EQ(ncclCommSplit(world, 0, rank, &part, nullptr), ncclRemoteError);
    EXPECT_MENTIONS(world, "has left the communicator");
  });
}

TEST_F(HostsTest, TheHomeMayBeElsewhereThanAllRanks) {
  // The id comes from a process at host 3, which takes no part but lives on.
  HostedRanks ranks(cluster_, {0, 1, 1, 3});
  ranks.Start([&](int rank) {
    const ncclUniqueId id = ranks.ShareId(0, rank == 3);
    if (rank == 3) {
      ranks.ShareId(1, false);  // until the others are done
      return 0;
    }
    ncclComm_t communicator = nullptr;
    EXPECT_NCCL(ncclCommInitRank(&communicator, 3, id, rank));
    EXPECT_EQ(CountRanks(communicator), 3);
    EXPECT_NCCL(ncclCommDestroy(communicator));
    if (rank == 0) ranks.PublishId(1, id);
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

TEST_F(HostsTest, AllRanksMayBeAtOneHostThatIsNotTheHome) {
  HostedRanks ranks(cluster_, {2, 2, 3});
  ranks.Start([&](int rank) {
    const ncclUniqueId id = ranks.ShareId(0, rank == 2);
    if (rank == 2) {
      ranks.ShareId(1, false);
      return 0;
    }
    ncclComm_t communicator = nullptr;
    EXPECT_NCCL(ncclCommInitRank(&communicator, 2, id, rank));
    for (int i = 0; i < 100; ++i) EXPECT_EQ(CountRanks(communicator), 2);
    ncclComm_t part = nullptr;
    EXPECT_NCCL(ncclCommSplit(communicator, 0, -rank, &part, nullptr));
    EXPECT_EQ(CountRanks(part), 2);
    EXPECT_NCCL(ncclCommDestroy(part));
    EXPECT_NCCL(ncclCommDestroy(communicator));
    if (rank == 0) ranks.PublishId(1, id);
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

TEST_F(HostsTest, ShrinkLeavesRanksOut) {
  RunOnHosts(cluster_, {0, 1, 1, 2}, [](int rank, ncclComm_t world) {
    if (rank == 1) return;
    int excluded[] = {1};
    ncclComm_t rest = nullptr;
    ASSERT_NCCL(ncclCommShrink(world, excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
    EXPECT_EQ(RankIn(rest), rank == 0 ? 0 : rank - 1);
    EXPECT_EQ(CountRanks(rest), 3);
    EXPECT_NCCL(ncclCommDestroy(rest));
  });
}

TEST_F(HostsTest, ShrinkLeavesTheHomesRanksOut) {
  RunOnHosts(cluster_, {0, 1, 1, 2}, [](int rank, ncclComm_t world) {
    if (rank == 0) return;
    int excluded[] = {0};
    ncclComm_t rest = nullptr;
    ASSERT_NCCL(ncclCommShrink(world, excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
    EXPECT_EQ(CountRanks(rest), 3);
    EXPECT_NCCL(ncclCommDestroy(rest));
  });
}

TEST_F(HostsTest, ShrinkNeedsOneListOfAll) {
  RunOnHosts(cluster_, {0, 1, 2}, [](int rank, ncclComm_t world) {
    int excluded[] = {rank == 0 ? 1 : 0};
    ncclComm_t rest = nullptr;
    const ncclResult_t result = ncclCommShrink(world, excluded, 1, &rest, nullptr, 0);
    // Ranks 1 and 2 agree, and are done where rank 0 comes last; it then waits for one that leaves.
    if (rank != 0 && result == ncclSuccess) {
      EXPECT_EQ(CountRanks(rest), 2);
      EXPECT_NCCL(ncclCommDestroy(rest));
      return;
    }
    EXPECT_TRUE(result == ncclInvalidUsage || result == ncclRemoteError) << result;
    EXPECT_EQ(rest, nullptr);
  });
}

TEST_F(HostsTest, ShrinkWithAbortEndsWhatIsUnderWay) {
  RunOnHosts(cluster_, {0, 1, 2, 2}, [](int rank, ncclComm_t world) {
    EXPECT_EQ(CountRanks(world), 4);
    if (rank == 3) {  // the one that is late; it learns of it when it comes
      std::this_thread::sleep_for(milliseconds(200));
      EXPECT_EQ(CountRanks(world), -static_cast<int>(ncclRemoteError));
      return;
    }
    if (rank == 1) {
      std::this_thread::sleep_for(milliseconds(50));
    } else {
      EXPECT_EQ(CountRanks(world), -static_cast<int>(ncclRemoteError));
      EXPECT_MENTIONS(world, "rank 1");
    }
    int excluded[] = {3};
    ncclComm_t rest = nullptr;
    ASSERT_NCCL(ncclCommShrink(world, excluded, 1, &rest, nullptr, NCCL_SHRINK_ABORT));
    EXPECT_EQ(CountRanks(rest), 3);
    EXPECT_NCCL(ncclCommDestroy(rest));
  });
}

/// Grows a communicator of hosts 0 and 1 with a rank of host 2 and one of host 1; rank `maker`
/// makes the id.
void Grow(TestCluster* cluster, int maker) {
  HostedRanks ranks(cluster, {0, 1, 2, 1});
  ranks.Start([&](int rank) {
    ncclComm_t small = nullptr;
    ncclComm_t grown = nullptr;
    if (rank < 2) {
      const ncclUniqueId id = ranks.ShareId(0, rank == 0);
      EXPECT_NCCL(ncclCommInitRank(&small, 2, id, rank));
      ncclUniqueId grow_id;
      if (rank == maker) {
        EXPECT_NCCL(ncclCommGetUniqueId(small, &grow_id));
        ranks.PublishId(1, grow_id);
      }
      EXPECT_NCCL(ncclCommGrow(small, 4, rank == maker ? &grow_id : nullptr, -1, &grown, nullptr));
    } else {
      const ncclUniqueId grow_id = ranks.ShareId(1, false);
      EXPECT_NCCL(ncclCommGrow(nullptr, 4, &grow_id, rank, &grown, nullptr));
    }
    if (grown == nullptr) return 1;
    EXPECT_EQ(RankIn(grown), rank);
    EXPECT_EQ(CountRanks(grown), 4);
    EXPECT_NCCL(ncclCommDestroy(grown));
    if (small != nullptr) {
      EXPECT_EQ(CountRanks(small), 2);
      EXPECT_NCCL(ncclCommDestroy(small));
    }
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

TEST_F(HostsTest, GrowTakesRanksOfANewHostIn) {
  Grow(cluster_, 0);
}

TEST_F(HostsTest, GrowIdsMayBeAskedForElsewhereThanAtTheHome) {
  Grow(cluster_, 1);
}

TEST_F(HostsTest, RevokedCommunicatorsCanBeSplit) {
  for (const int revoker : {0, 2}) {
    RunOnHosts(cluster_, {0, 1, 2}, [revoker](int rank, ncclComm_t world) {
      if (rank == revoker) {
        EXPECT_NCCL(ncclCommRevoke(world, NCCL_REVOKE_DEFAULT));
      }
      while (CountRanks(world) == 3) {
      }
      EXPECT_MENTIONS(world, "rank " + std::to_string(revoker) + " revoked");
      ncclComm_t again = nullptr;
      ASSERT_NCCL(ncclCommSplit(world, 0, rank, &again, nullptr));
      EXPECT_EQ(CountRanks(again), 3);
      EXPECT_NCCL(ncclCommDestroy(again));
    });
  }
}

TEST_F(HostsTest, NonBlockingInitAndOperations) {
  HostedRanks ranks(cluster_, {0, 1, 1, 2});
  ranks.Start([&](int rank) {
    const ncclUniqueId id = ranks.ShareId(0, rank == 0);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t communicator = nullptr;
    const ncclResult_t started = ncclCommInitRankConfig(&communicator, 4, id, rank, &config);
    EXPECT_TRUE(started == ncclSuccess || started == ncclInProgress);
    EXPECT_EQ(Await(communicator), ncclSuccess);
    std::vector<float> data(100000, static_cast<float>(rank));
    for (int i = 0; i < 10; ++i) {
      const ncclResult_t posted = ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat,
                                                ncclMax, communicator, nullptr);
      EXPECT_TRUE(posted == ncclSuccess || posted == ncclInProgress);
      EXPECT_EQ(Await(communicator), ncclSuccess);
      EXPECT_EQ(data.back(), 3.0f);
    }
    ncclComm_t part = nullptr;
    const ncclResult_t split = ncclCommSplit(communicator, rank % 2, 0, &part, nullptr);
    EXPECT_TRUE(split == ncclSuccess || split == ncclInProgress);
    EXPECT_EQ(Await(part), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(part));
    const ncclResult_t finalized = ncclCommFinalize(communicator);
    EXPECT_TRUE(finalized == ncclSuccess || finalized == ncclInProgress);
    EXPECT_EQ(Await(communicator), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

TEST_F(HostsTest, ManyAtOnce) {
  constexpr int kCommunicators = 12;
  HostedRanks ranks(cluster_, {0, 1, 2});
  ranks.Start([&](int rank) {
    std::vector<ncclUniqueId> ids;
    // Each host is the home of a third of them.
    for (int i = 0; i < kCommunicators; ++i) ids.push_back(ranks.ShareId(i, rank == i % 3));
    std::vector<ncclComm_t> communicators(kCommunicators);
    EXPECT_NCCL(ncclGroupStart());
    for (int i = 0; i < kCommunicators; ++i) {
      EXPECT_NCCL(ncclCommInitRank(&communicators[static_cast<size_t>(i)], 3,
                                   ids[static_cast<size_t>(i)], rank));
    }
    EXPECT_NCCL(ncclGroupEnd());
    std::vector<int> values(kCommunicators);
    for (int round = 0; round < 3; ++round) {
      EXPECT_NCCL(ncclGroupStart());
      for (int i = 0; i < kCommunicators; ++i) {
        const auto c = static_cast<size_t>((i * 7 + rank * 5) % kCommunicators);
        values[c] = static_cast<int>(c) + rank;
        EXPECT_NCCL(
            ncclAllReduce(&values[c], &values[c], 1, ncclInt, ncclSum, communicators[c], nullptr));
      }
      EXPECT_NCCL(ncclGroupEnd());
      for (int c = 0; c < kCommunicators; ++c) EXPECT_EQ(values[static_cast<size_t>(c)], 3 * c + 3);
    }
    for (ncclComm_t communicator : communicators) EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

// ---------------------------------------------------------------------------------------------
// Ranks that disagree

TEST_F(HostsTest, RanksThatDisagreeAreNamed) {
  RunOnHosts(cluster_, {0, 1, 2, 0}, [](int rank, ncclComm_t world) {
    const auto expect = [&](ncclResult_t result, const std::string& text) {
      EXPECT_EQ(result, ncclInvalidUsage) << text << ": " << ncclGetLastError(world);
      EXPECT_MENTIONS(world, text);
    };
    expect(AllReduce(world, rank == 1 ? 7 : 8), "rank 1 asked for AllReduce(7 x float32, sum)");
    EXPECT_EQ(CountRanks(world), 4);
    // As many bytes, so that only the ranks can tell.
    expect(AllReduce(world, 8, rank == 2 ? ncclInt : ncclFloat),
           "rank 2 asked for AllReduce(8 x int32, sum)");
    expect(AllReduce(world, 8, ncclFloat, rank == 1 ? ncclMin : ncclMax),
           "rank 1 asked for AllReduce(8 x float32, min)");
    // More than goes at once.
    expect(AllReduce(world, rank == 2 ? 100000 : 200000, ncclDouble), "rank 2 asked for AllReduce");
    EXPECT_EQ(AllReduce(world, 8), ncclSuccess) << ncclGetLastError(world);
    // Another collective.
    std::vector<float> data(64);
    const ncclResult_t other =
        rank == 1 ? ncclAllGather(data.data(), data.data(), 8, ncclFloat, world, nullptr)
                  : ncclAllReduce(data.data(), data.data(), 8, ncclFloat, ncclSum, world, nullptr);
    expect(other, "rank 1 asked for AllGather(8 x float32)");
    EXPECT_EQ(CountRanks(world), 4);
  });
}

TEST_F(HostsTest, RootsThatDisagreeAreNamed) {
  RunOnHosts(cluster_, {0, 1, 2}, [](int rank, ncclComm_t world) {
    for (const size_t count : {size_t{1}, size_t{100000}}) {
      std::vector<float> data(3 * count);
      EXPECT_EQ(ncclBroadcast(data.data(), data.data(), count, ncclFloat, rank == 0 ? 0 : 1, world,
                              nullptr),
                ncclInvalidUsage);
      EXPECT_MENTIONS(world, "root 0");
      EXPECT_MENTIONS(world, "root 1");
      EXPECT_EQ(CountRanks(world), 3);
      // Each takes itself for the root: nobody waits for anybody.
      EXPECT_EQ(ncclBroadcast(data.data(), data.data(), count, ncclFloat, rank, world, nullptr),
                ncclInvalidUsage);
      EXPECT_EQ(ncclReduce(data.data(), data.data(), count, ncclFloat, ncclSum, (rank + 1) % 3,
                           world, nullptr),
                ncclInvalidUsage);
      EXPECT_EQ(
          ncclGather(data.data(), data.data(), count, ncclFloat, rank == 2 ? 2 : 0, world, nullptr),
          ncclInvalidUsage);
      EXPECT_EQ(ncclScatter(data.data(), data.data(), count, ncclFloat, rank == 2 ? 2 : 0, world,
                            nullptr),
                ncclInvalidUsage);
      // A root that is done as soon as its data is on its way, and hosts that are done when they
      // learn that another is at something else.
      for (int round = 0; round < 5; ++round) {
        EXPECT_EQ(ncclBroadcast(data.data(), data.data(), rank == 2 ? count + 1 : count, ncclFloat,
                                0, world, nullptr),
                  ncclInvalidUsage);
      }
      EXPECT_EQ(CountRanks(world), 3);
    }
    // Nothing to do for some.
    EXPECT_EQ(AllReduce(world, rank == 1 ? 0 : 8), ncclInvalidUsage);
    EXPECT_EQ(AllReduce(world, 0), ncclSuccess);
    EXPECT_EQ(CountRanks(world), 3);
  });
}

TEST_F(HostsTest, RanksDisagreeWithinAHostAndAcross) {
  RunOnHosts(cluster_, {0, 0, 1, 1}, [](int rank, ncclComm_t world) {
    EXPECT_EQ(AllReduce(world, static_cast<size_t>(10 + rank)), ncclInvalidUsage);
    EXPECT_MENTIONS(world, "the ranks disagree");
    EXPECT_EQ(AllReduce(world, rank == 3 ? 5 : 6), ncclInvalidUsage);
    EXPECT_MENTIONS(world, "rank 3 asked for AllReduce(5 x float32, sum)");
    for (int i = 0; i < 20; ++i) EXPECT_EQ(CountRanks(world), 4);
  });
}

TEST_F(HostsTest, MessagesThatDisagreeAreNamed) {
  RunOnHosts(cluster_, {0, 1, 2}, [](int rank, ncclComm_t world) {
    std::vector<int> data(400000);
    for (const size_t count : {size_t{4}, size_t{400000}}) {
      if (rank < 2) {
        const ncclResult_t result =
            rank == 0 ? ncclSend(data.data(), count, ncclInt, 1, world, nullptr)
                      : ncclRecv(data.data(), count - 1, ncclInt, 0, world, nullptr);
        EXPECT_EQ(result, ncclInvalidUsage);
        EXPECT_MENTIONS(world, "rank 0 sends " + std::to_string(count) + " x int32");
      }
      // The next ones meet.
      if (rank < 2) {
        data[0] = rank == 0 ? 42 : 0;
        EXPECT_NCCL(rank == 0 ? ncclSend(data.data(), count, ncclInt, 1, world, nullptr)
                              : ncclRecv(data.data(), count, ncclInt, 0, world, nullptr));
        EXPECT_EQ(data[0], 42);
      }
    }
    EXPECT_EQ(CountRanks(world), 3);
  });
}

TEST_F(HostsTest, ABufferThatIsNotThereIsNamed) {
  RunOnHosts(cluster_, {0, 1, 2, 1}, [](int rank, ncclComm_t world) {
    std::vector<float> good(100000);
    void* bad = reinterpret_cast<void*>(0x1000);
    for (const int culprit : {1, 0, 2, 3}) {
      EXPECT_EQ(ncclAllReduce(good.data(), rank == culprit ? bad : good.data(), good.size(),
                              ncclFloat, ncclSum, world, nullptr),
                ncclInvalidArgument)
          << ncclGetLastError(world);
      EXPECT_MENTIONS(world, "receive buffer of rank " + std::to_string(culprit));
      EXPECT_EQ(AllReduce(world, 8), ncclSuccess) << ncclGetLastError(world);
      EXPECT_EQ(ncclAllReduce(rank == culprit ? bad : good.data(), good.data(), good.size(),
                              ncclFloat, ncclSum, world, nullptr),
                ncclInvalidArgument)
          << ncclGetLastError(world);
      EXPECT_MENTIONS(world, "send buffer of rank " + std::to_string(culprit));
      EXPECT_EQ(AllReduce(world, 100000), ncclSuccess) << ncclGetLastError(world);
    }
  });
}

TEST_F(HostsTest, ASendFromABufferThatIsNotThereEndsTheReceive) {
  RunOnHosts(cluster_, {0, 1}, [](int rank, ncclComm_t world) {
    std::vector<float> data(100000);
    void* bad = reinterpret_cast<void*>(0x1000);
    for (int i = 0; i < 3; ++i) {
      if (rank == 0) {
        EXPECT_EQ(ncclSend(bad, data.size(), ncclFloat, 1, world, nullptr), ncclInvalidArgument);
      } else {
        EXPECT_EQ(ncclRecv(data.data(), data.size(), ncclFloat, 0, world, nullptr),
                  ncclInvalidArgument);
        EXPECT_MENTIONS(world, "send buffer of rank 0");
      }
      if (rank == 0) {
        const ncclResult_t result =
            ncclSend(data.data(), data.size(), ncclFloat, 1, world, nullptr);
        // It may have been handed over before the receiver met its fault.
        EXPECT_TRUE(result == ncclSuccess || result == ncclInvalidArgument ||
                    result == ncclRemoteError);
      } else {
        // The sender may hear of the fault, and end the transfer, before the receiver's worker has
        // told of it here.
        const ncclResult_t result = ncclRecv(bad, data.size(), ncclFloat, 0, world, nullptr);
        EXPECT_TRUE(result == ncclInvalidArgument || result == ncclRemoteError);
      }
      EXPECT_EQ(CountRanks(world), 2);
    }
  });
}

// ---------------------------------------------------------------------------------------------
// Ranks that leave, or come late

TEST_F(HostsTest, ARankThatLeftIsNamed) {
  for (const int leaver : {0, 1, 2, 3}) {
    RunOnHosts(cluster_, {0, 1, 1, 2}, [leaver](int rank, ncclComm_t world) {
      EXPECT_EQ(CountRanks(world), 4);
      if (rank == leaver) return;
      // Some are in it before it leaves, some come later.
      if (rank == (leaver + 1) % 4) std::this_thread::sleep_for(milliseconds(30));
      EXPECT_EQ(AllReduce(world, 100), ncclRemoteError);
      EXPECT_MENTIONS(world, "rank " + std::to_string(leaver));
      EXPECT_EQ(AllReduce(world, 200000), ncclRemoteError);
      // The others can still reach each other.
      int value = rank;
      const int sender = leaver == 0 ? 3 : 0;
      const int receiver = leaver == 1 ? 2 : 1;
      if (rank == sender) {
        EXPECT_NCCL(ncclSend(&value, 1, ncclInt, receiver, world, nullptr));
      }
      if (rank == receiver) {
        EXPECT_NCCL(ncclRecv(&value, 1, ncclInt, sender, world, nullptr));
        EXPECT_EQ(value, sender);
      }
    });
  }
}

TEST_F(HostsTest, SendsToARankThatLeftFail) {
  RunOnHosts(cluster_, {0, 1, 1, 2}, [](int rank, ncclComm_t world) {
    if (rank == 1) {
      std::this_thread::sleep_for(milliseconds(50));
      return;
    }
    if (rank == 2) return;
    std::vector<int> data(rank == 0 ? 1 : 100000);
    EXPECT_EQ(ncclSend(data.data(), data.size(), ncclInt, 1, world, nullptr), ncclRemoteError);
    EXPECT_MENTIONS(world, "rank 1");
    EXPECT_EQ(ncclRecv(data.data(), data.size(), ncclInt, 2, world, nullptr), ncclRemoteError);
    EXPECT_MENTIONS(world, "rank 2");
  });
}

// The receiver leaves at once after it has received: its answers and the news that it left take
// different ways.
TEST_F(HostsTest, WhoHasReceivedMayLeaveBeforeTheSenderKnows) {
  for (int round = 0; round < 15; ++round) {
    RunOnHosts(cluster_, {0, 1, 2}, [](int rank, ncclComm_t world) {
      std::vector<int> data(1000, rank);
      if (rank == 1) {
        for (int i = 0; i < 10; ++i) {
          EXPECT_NCCL(ncclSend(data.data(), data.size(), ncclInt, 2, world, nullptr));
        }
      } else if (rank == 2) {
        for (int i = 0; i < 10; ++i) {
          EXPECT_NCCL(ncclRecv(data.data(), data.size(), ncclInt, 1, world, nullptr));
        }
      }
    });
  }
}

TEST_F(HostsTest, ALateRankIsReportedWhileTheOthersWait) {
  for (const int late : {0, 1, 2}) {
    RunOnHosts(cluster_, {0, 1, 1}, [late](int rank, ncclComm_t world) {
      EXPECT_EQ(CountRanks(world), 3);
      if (rank == late) std::this_thread::sleep_for(kLate);
      EXPECT_EQ(AllReduce(world, 8), ncclSuccess);
      if (rank == late) return;
      EXPECT_MENTIONS(world, "AllReduce #1 has waited");
      EXPECT_MENTIONS(world, "rank " + std::to_string(late));
    });
  }
}

/// What `harmonaize status` of the daemon says of operations that wait.
std::string WaitingAt(DaemonProcess& daemon) {
  const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
  EXPECT_TRUE(status.ok()) << status.status().message();
  const nlohmann::json report = nlohmann::json::parse(*status);
  std::string waiting;
  for (const auto& tenant : report.at("tenants")) {
    for (const auto& communicator : tenant.at("communicators")) {
      if (!communicator.at("waiting").empty()) waiting += communicator.at("waiting").dump();
    }
  }
  return waiting;
}

TEST_F(HostsTest, TheStatusNamesLateRanksOfOtherHosts) {
  for (const bool rooted : {false, true}) {
    HostedRanks ranks(cluster_, {0, 1, 2});
    ranks.Start([&](int rank) {
      const ncclUniqueId id = ranks.ShareId(0, rank == 0);
      ncclComm_t world = nullptr;
      EXPECT_NCCL(ncclCommInitRank(&world, 3, id, rank));
      EXPECT_EQ(CountRanks(world), 3);
      if (rank == 2) ranks.ShareId(1, false);
      int value = rank;
      // The root is done with its part at once.
      EXPECT_NCCL(rooted ? ncclBroadcast(&value, &value, 1, ncclInt, 1, world, nullptr)
                         : ncclAllReduce(&value, &value, 1, ncclInt, ncclMin, world, nullptr));
      EXPECT_EQ(value, rooted ? 1 : 0);
      EXPECT_NCCL(ncclCommDestroy(world));
      return 0;
    });
    std::string waiting;
    const auto start = steady_clock::now();
    while (waiting.find("\"missing_ranks\":[2]") == std::string::npos && SecondsSince(start) < 20) {
      std::this_thread::sleep_for(milliseconds(20));
      waiting = WaitingAt(cluster_->daemon(1));
    }
    EXPECT_NE(waiting.find("\"missing_ranks\":[2]"), std::string::npos) << waiting;
    ranks.PublishId(1, {});
    ExpectAllEndWell(&ranks);
  }
}

TEST_F(HostsTest, ALateSenderIsReported) {
  RunOnHosts(cluster_, {0, 1}, [](int rank, ncclComm_t world) {
    int value = 5;
    if (rank == 0) {
      std::this_thread::sleep_for(kLate);
      EXPECT_NCCL(ncclSend(&value, 1, ncclInt, 1, world, nullptr));
    } else {
      EXPECT_NCCL(ncclRecv(&value, 1, ncclInt, 0, world, nullptr));
      EXPECT_MENTIONS(world, "has waited");
      EXPECT_MENTIONS(world, "rank 0");
    }
  });
}

// ---------------------------------------------------------------------------------------------
// Aborts

TEST_F(HostsTest, AbortReturnsWhateverThePeersDo) {
  for (const int aborter : {0, 1, 2}) {
    HostedRanks ranks(cluster_, {0, 1, 2});
    ranks.Start([&](int rank) {
      const ncclUniqueId id = ranks.ShareId(0, rank == 0);
      ncclComm_t world = nullptr;
      EXPECT_NCCL(ncclCommInitRank(&world, 3, id, rank));
      EXPECT_EQ(CountRanks(world), 3);
      if (rank == aborter) {
        // One thread waits in a collective that nobody else joins; another aborts it.
        ncclResult_t result = ncclSuccess;
        std::thread waiting([&] { result = AllReduce(world, 100000); });
        std::this_thread::sleep_for(milliseconds(50));
        const auto start = steady_clock::now();
        EXPECT_NCCL(ncclCommAbort(world));
        EXPECT_LT(SecondsSince(start), 5);
        waiting.join();
        EXPECT_EQ(result, ncclRemoteError);
        return 0;
      }
      std::this_thread::sleep_for(milliseconds(100));
      EXPECT_EQ(AllReduce(world, 100), ncclRemoteError);
      EXPECT_MENTIONS(world, "rank " + std::to_string(aborter));
      EXPECT_NCCL(ncclCommAbort(world));
      return 0;
    });
    ExpectAllEndWell(&ranks);
  }
}

// Large transfers between two hosts are under way when a third one's rank aborts: both end, and
// both can leave.
TEST_F(HostsTest, AbortEndsTransfersThatAreUnderWay) {
  HostedRanks ranks(cluster_, {0, 1, 2});
  ranks.Start([&](int rank) {
    const ncclUniqueId id = ranks.ShareId(0, rank == 0);
    ncclComm_t world = nullptr;
    EXPECT_NCCL(ncclCommInitRank(&world, 3, id, rank));
    if (rank == 0) {
      std::this_thread::sleep_for(milliseconds(60));
      EXPECT_NCCL(ncclCommAbort(world));
      return 0;
    }
    std::vector<float> data(4 << 20);
    ncclResult_t result = ncclSuccess;
    const auto start = steady_clock::now();
    while (result == ncclSuccess && SecondsSince(start) < 20) {
      result = rank == 1 ? ncclSend(data.data(), data.size(), ncclFloat, 2, world, nullptr)
                         : ncclRecv(data.data(), data.size(), ncclFloat, 1, world, nullptr);
    }
    EXPECT_EQ(result, ncclRemoteError);
    EXPECT_MENTIONS(world, "rank 0");
    EXPECT_NCCL(ncclCommDestroy(world));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

// ---------------------------------------------------------------------------------------------
// Communicators that do not form

TEST_F(HostsTest, ACommunicatorThatNeverFormsFails) {
  HostedRanks ranks(cluster_, {0, 1});
  ranks.Start([&](int rank) {
    const ncclUniqueId id = ranks.ShareId(0, rank == 0);
    ncclComm_t communicator = nullptr;
    EXPECT_EQ(ncclCommInitRank(&communicator, 4, id, rank), ncclRemoteError);
    EXPECT_EQ(communicator, nullptr);
    EXPECT_MENTIONS(nullptr, "ranks 2, 3");
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

// A message that named all that are missing would be longer than daemons take from each other.
TEST_F(HostsTest, AMillionMissingRanksAreNotAllNamed) {
  HostedRanks ranks(cluster_, {0, 1, 1});
  ranks.Start([&](int rank) {
    const ncclUniqueId id = ranks.ShareId(0, rank == 0);
    const ncclUniqueId healthy_id = ranks.ShareId(1, rank == 0);
    ncclComm_t communicator = nullptr;
    if (rank == 2) {
      EXPECT_EQ(ncclCommInitRank(&communicator, 1 << 20, id, rank), ncclRemoteError);
      EXPECT_MENTIONS(nullptr, "more");
      return 0;
    }
    EXPECT_NCCL(ncclCommInitRank(&communicator, 2, healthy_id, rank));
    // As often at both, as the one that leaves first ends the other's operation.
    constexpr int kRounds = static_cast<int>((kFormationTimeoutSeconds + 1) / 0.02);
    for (int round = 0; round < kRounds; ++round) {
      EXPECT_EQ(CountRanks(communicator), 2) << ncclGetLastError(communicator);
      if (::testing::Test::HasFailure()) break;
      std::this_thread::sleep_for(milliseconds(20));
    }
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

TEST_F(HostsTest, WrongJoinsAreRefused) {
  HostedRanks ranks(cluster_, {0, 1});
  ranks.Start([&](int rank) {
    const ncclUniqueId id = ranks.ShareId(0, rank == 0);
    if (rank == 0) {
      ranks.ShareId(1, false);
      return 0;
    }
    ncclComm_t communicator = nullptr;
    EXPECT_EQ(ncclCommInitRank(&communicator, 2, id, 2), ncclInvalidArgument);
    ncclUniqueId invented = id;
    invented.internal[20] = static_cast<char>(invented.internal[20] ^ 1);
    EXPECT_EQ(ncclCommInitRank(&communicator, 1, invented, 0), ncclInvalidArgument);
    ncclUniqueId bent = id;
    bent.internal[60] = static_cast<char>(bent.internal[60] ^ 1);
    EXPECT_EQ(ncclCommInitRank(&communicator, 1, bent, 0), ncclInvalidArgument);
    // Twice the same rank.
    ncclResult_t first = ncclSuccess;
    std::thread waiting([&] {
      ncclComm_t never = nullptr;
      first = ncclCommInitRank(&never, 2, id, 1);
    });
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(ncclCommInitRank(&communicator, 2, id, 1), ncclInvalidUsage);
    EXPECT_MENTIONS(nullptr, "already joined");
    EXPECT_EQ(ncclCommInitRank(&communicator, 3, id, 2), ncclInvalidUsage);
    waiting.join();
    EXPECT_EQ(first, ncclRemoteError);
    ranks.PublishId(1, id);
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

TEST_F(HostsTest, AnIdOfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  for (int host = 0; host < 2; ++host) {
    std::filesystem::permissions(cluster_->daemon(host).folder(), std::filesystem::perms(0755));
  }
  for (const int intruders_host : {0, 1}) {
    HostedRanks ranks(cluster_, {0, intruders_host});
    ranks.Start([&](int rank) {
      const ncclUniqueId id = ranks.ShareId(0, rank == 0);
      if (rank == 0) {
        ranks.ShareId(1, false);
        return 0;
      }
      EXPECT_EQ(setuid(65534), 0);
      ncclComm_t communicator = nullptr;
      EXPECT_EQ(ncclCommInitRank(&communicator, 2, id, 1), ncclInvalidUsage);
      EXPECT_MENTIONS(nullptr, "another user");
      ranks.PublishId(1, id);
      return 0;
    });
    ExpectAllEndWell(&ranks);
  }
}

TEST_F(HostsTest, AnIdServesOnce) {
  HostedRanks ranks(cluster_, {0, 1});
  ranks.Start([&](int rank) {
    const ncclUniqueId id = ranks.ShareId(0, rank == 0);
    ncclComm_t communicator = nullptr;
    EXPECT_NCCL(ncclCommInitRank(&communicator, 2, id, rank));
    ncclComm_t again = nullptr;
    EXPECT_EQ(ncclCommInitRank(&again, 2, id, rank), ncclInvalidArgument);
    EXPECT_MENTIONS(nullptr, "ncclGetUniqueId again");
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

// ---------------------------------------------------------------------------------------------
// Daemons that are not there

TEST(HostsWithoutADaemon, IdsOfARestartedOrLostDaemonAreRefused) {
  TestCluster cluster(2, Impatient());
  HostedRanks ranks(&cluster, {0, 1});
  ranks.Start([&](int rank) {
    const ncclUniqueId id = ranks.ShareId(0, rank == 0);
    if (rank == 0) return 0;
    ranks.ShareId(1, false);  // until daemon 0 is gone
    ncclComm_t communicator = nullptr;
    EXPECT_EQ(ncclCommInitRank(&communicator, 2, id, 1), ncclRemoteError);
    EXPECT_MENTIONS(nullptr, "cannot be reached");
    return 0;
  });
  waitpid(ranks.process(0), nullptr, WNOWAIT | WEXITED);
  std::this_thread::sleep_for(milliseconds(200));
  cluster.daemon(0).Kill();
  ranks.PublishId(1, {});
  ranks.Wait();
}

TEST(HostsWithoutADaemon, AnotherKeyIsAnotherCluster) {
  TestCluster one(1);
  TestCluster other(1, "", "", "the key of another cluster, also 32 bytes or more\n",
                    /*keep_logs=*/true);
  setenv("HARMONAIZE_SOCKET", one.daemon(0).socket_path().c_str(), 1);
  const std::vector<int> made = RunAsProcesses(1, [&](int) {
    ncclUniqueId id;
    if (ncclGetUniqueId(&id) != ncclSuccess) return 1;
    // The other daemon, in a process that has no session yet.
    const pid_t child = fork();
    if (child == 0) {
      setenv("HARMONAIZE_SOCKET", other.daemon(0).socket_path().c_str(), 1);
      ncclComm_t communicator = nullptr;
      EXPECT_EQ(ncclCommInitRank(&communicator, 2, id, 1), ncclInvalidArgument);
      EXPECT_MENTIONS(nullptr, "another cluster");
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  });
  EXPECT_EQ(made.front(), 0);
  EXPECT_NE(other.daemon(0).Log().find("cluster.key_file"), std::string::npos)
      << other.daemon(0).Log();
}

}  // namespace
}  // namespace harmonaize::testing
