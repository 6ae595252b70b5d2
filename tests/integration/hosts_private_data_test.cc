// Private data of operations between hosts: on host streams, in groups, and in sends and receives
// (docs/architecture.md, "Who copies").

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "nccl.h"
#include "tests/support/cluster.h"
#include "tests/support/private_data.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

TEST(HostsPrivateData, RandomOrdersOfChains) {
  TestCluster cluster(2);
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RunOnHosts(&cluster, {0, 1, 0}, [seed](int rank, ncclComm_t world) {
    for (uint32_t round = 0; round < (kSanitized ? 1 : 3); ++round) {
      RunChains(rank, 3, world, seed + round);
    }
  });
}

// Some peers are on the same host, and some on another.
TEST(HostsPrivateData, EveryRankSendsToEveryRank) {
  TestCluster cluster(2);
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RunOnHosts(&cluster, {0, 1, 1, 0}, [seed](int rank, ncclComm_t communicator) {
    const Stream stream;
    for (uint32_t round = 0; round < (kSanitized ? 2 : 6); ++round) {
      ExchangeAll(rank, communicator, round % 2 == 0 ? nullptr : cudaStream_t(stream),
                  seed + round);
    }
  });
}

// Many messages for few windows, with the hosts' ranks in opposite orders.
TEST(HostsPrivateData, MessagesBetweenTwoRanksInManyOrders) {
  TestCluster cluster(2);
  RunOnHosts(&cluster, {0, 1}, [](int rank, ncclComm_t communicator) {
    constexpr size_t kMessages = 12;
    const int peer = 1 - rank;
    std::vector<std::vector<uint32_t>> sends;
    std::vector<std::vector<uint32_t>> receives(kMessages, std::vector<uint32_t>(kSliced));
    for (size_t i = 0; i < kMessages; ++i) {
      sends.push_back(Message(rank, static_cast<int>(i), kSliced));
    }
    EXPECT_NCCL(ncclGroupStart());
    for (const bool sending : {rank == 0, rank != 0}) {
      for (size_t i = 0; i < kMessages; ++i) {
        EXPECT_NCCL(
            sending
                ? ncclSend(sends[i].data(), kSliced, ncclUint32, peer, communicator, nullptr)
                : ncclRecv(receives[i].data(), kSliced, ncclUint32, peer, communicator, nullptr));
      }
    }
    EXPECT_NCCL(ncclGroupEnd());
    for (size_t i = 0; i < kMessages; ++i) {
      EXPECT_EQ(receives[i] == Message(peer, static_cast<int>(i), kSliced), true) << i;
    }
  });
}

TEST(HostsPrivateData, AnAbortEndsTransfersInTheMiddle) {
  TestCluster cluster(2);
  for (int round = 0; round < (kSanitized ? 2 : 8); ++round) {
    RunOnHosts(&cluster, {0, 1, 0}, [round](int rank, ncclComm_t world) {
      AbortPairs(rank, world, std::chrono::microseconds(500 * round + 100 * rank));
    });
  }
}

}  // namespace
}  // namespace harmonaize::testing
