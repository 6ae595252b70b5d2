// How communicators that span hosts come, change and do not form: what communicators_test.cc proves
// of one host.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harmonaize.h"
#include "tests/support/hosts_case.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// What a rank of `communicator` finds of itself.
int RankIn(ncclComm_t communicator) {
  int rank = -1;
  EXPECT_NCCL(ncclCommUserRank(communicator, &rank));
  return rank;
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

// ---------------------------------------------------------------------------------------------
// Teams

/// NCCL's ncclTeam, which its device headers define.
struct Team {
  int ranks, rank, stride;
  auto operator<=>(const Team&) const = default;
};
extern "C" Team ncclTeamLsa(ncclComm_t);
extern "C" Team ncclTeamRail(ncclComm_t);
extern "C" int ncclTeamRankToWorld(ncclComm_t, Team, int);
extern "C" int ncclTeamRankToLsa(ncclComm_t, Team, int);

/// That the teams of a communicator whose runs of `together` ranks share hosts are these runs, and
/// the ranks with the same place in them.
void ExpectTeams(ncclComm_t communicator, int ranks, int rank, int together) {
  const Team host = {together, rank % together, 1};
  const Team rail = {ranks / together, rank / together, together};
  EXPECT_EQ(ncclTeamLsa(communicator), host) << rank;
  EXPECT_EQ(ncclTeamRail(communicator), rail) << rank;
  const int first = rank - host.rank;
  for (int place = 0; place < together; ++place) {
    EXPECT_EQ(ncclTeamRankToWorld(communicator, host, place), first + place);
    const Team world = {ranks, rank, 1};
    EXPECT_EQ(ncclTeamRankToLsa(communicator, world, first + place), place);
  }
  for (int place = 0; place < rail.ranks; ++place) {
    EXPECT_EQ(ncclTeamRankToWorld(communicator, rail, place), place * together + host.rank);
  }
}

TEST_F(HostsTest, TeamsAreTheRanksOfAHostAndThoseWithTheSamePlaceThere) {
  const struct {
    std::vector<int> host_of_rank;
    int together;
  } cases[] = {
      {{0, 0, 1, 1, 2, 2}, 2},                           // Two at each host.
      {{1, 1, 1, 0, 0, 0}, 3}, {{0, 0, 0, 0, 1, 1}, 2},  // What divides both.
      {{0, 0, 0, 1}, 1},       {{0, 1, 0, 1}, 1},        // In turns: neighbours are never together.
      {{2, 2, 2}, 3},
  };
  for (const auto& one : cases) {
    RunOnHosts(cluster_, one.host_of_rank, [&](int rank, ncclComm_t world) {
      ExpectTeams(world, static_cast<int>(one.host_of_rank.size()), rank, one.together);
    });
  }
}

TEST_F(HostsTest, TeamsOfAChildAreItsOwn) {
  RunOnHosts(cluster_, {0, 1, 0, 1}, [](int rank, ncclComm_t world) {
    ncclComm_t part = nullptr;
    // By host: 0, 2 and 1, 3.
    ASSERT_NCCL(ncclCommSplit(world, 0, rank % 2 * 10 + rank, &part, nullptr));
    ExpectTeams(part, 4, RankIn(part), 2);
    EXPECT_NCCL(ncclCommDestroy(part));
    ASSERT_NCCL(ncclCommSplit(world, rank % 2, rank, &part, nullptr));
    ExpectTeams(part, 2, RankIn(part), 2);
    EXPECT_NCCL(ncclCommDestroy(part));
  });
}

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

// Ranks that were taken for lost may have taken the others for lost.
TEST_F(HostsTest, RanksThatExcludeEachOtherShrinkApart) {
  RunOnHosts(cluster_, {0, 1, 2, 0, 1}, [](int rank, ncclComm_t world) {
    EXPECT_EQ(CountRanks(world), 5);
    std::vector<int> excluded = rank % 2 == 0 ? std::vector{1, 3} : std::vector{0, 2, 4};
    // Some of both parts wait before any part is complete.
    if (rank >= 3) std::this_thread::sleep_for(milliseconds(50));
    ncclComm_t part = nullptr;
    EXPECT_NCCL(ncclCommShrink(world, excluded.data(), static_cast<int>(excluded.size()), &part,
                               nullptr, NCCL_SHRINK_DEFAULT));
    ASSERT_NE(part, nullptr);
    EXPECT_EQ(CountRanks(part), rank % 2 == 0 ? 3 : 2);
    EXPECT_NCCL(ncclCommDestroy(part));
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

/// Rank 0 waits in `call` for ranks that will not come; another one ends the communicator. What
/// cannot form any more fails at once, and does not wait for its time to be over.
void EndWhileRankZeroWaits(TestCluster* cluster, ncclResult_t expected,
                           const std::function<ncclResult_t(ncclComm_t, ncclComm_t*)>& call,
                           const std::function<void(ncclComm_t)>& end) {
  HostedRanks ranks(cluster, {1, 0, 2});
  ranks.Start([&](int rank) {
    const ncclComm_t world = ranks.Join(rank);
    EXPECT_EQ(CountRanks(world), 3);
    if (rank != 1) ranks.PublishId(2 + rank, {});
    if (rank == 0) {
      ncclComm_t made = nullptr;
      EXPECT_EQ(call(world, &made), expected) << ncclGetLastError(world);
      EXPECT_EQ(std::string(ncclGetLastError(nullptr)).find("in vain"), std::string::npos);
      ranks.PublishId(1, {});
    } else if (rank == 1) {
      // The others have counted, and rank 0 is about to call.
      ranks.ShareId(2, false);
      ranks.ShareId(4, false);
      std::this_thread::sleep_for(milliseconds(50));
      end(world);
    }
    // Nobody leaves before rank 0 has been told.
    ranks.ShareId(1, false);
    EXPECT_NCCL(ncclCommDestroy(world));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

TEST_F(HostsTest, ASplitEndsWithItsParent) {
  EndWhileRankZeroWaits(
      cluster_, ncclRemoteError,
      [](ncclComm_t world, ncclComm_t* made) { return ncclCommSplit(world, 0, 0, made, nullptr); },
      [](ncclComm_t world) {
        int excluded[] = {0, 2};
        ncclComm_t rest = nullptr;
        EXPECT_NCCL(ncclCommShrink(world, excluded, 2, &rest, nullptr, NCCL_SHRINK_ABORT));
        EXPECT_EQ(CountRanks(rest), 1);
        EXPECT_NCCL(ncclCommDestroy(rest));
      });
}

TEST_F(HostsTest, AGrowthEndsWithItsParent) {
  EndWhileRankZeroWaits(
      cluster_, ncclInvalidUsage,
      [](ncclComm_t world, ncclComm_t* made) {
        return ncclCommGrow(world, 4, nullptr, -1, made, nullptr);
      },
      [](ncclComm_t world) { EXPECT_NCCL(ncclCommRevoke(world, NCCL_REVOKE_DEFAULT)); });
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

/// Ranks of three hosts that call with these numbers and ranks, one after the other: all fail, and
/// each is told `sentence`. The last one comes when the others have failed.
void ExpectDisagreement(TestCluster* cluster, const std::vector<std::pair<int, int>>& calls,
                        const std::string& sentence) {
  HostedRanks processes(cluster, {0, 1, 2, 1});
  processes.Start([&](int process) {
    const ncclUniqueId id = processes.ShareId(0, process == 0);
    std::this_thread::sleep_for(milliseconds(100 * process));
    const auto [ranks, rank] = calls[static_cast<size_t>(process)];
    ncclComm_t communicator = nullptr;
    EXPECT_EQ(ncclCommInitRank(&communicator, ranks, id, rank), ncclInvalidUsage);
    EXPECT_EQ(communicator, nullptr);
    EXPECT_MENTIONS(nullptr, sentence);
    // The home forgets an id with the process that asked for it.
    if (process == 0) std::this_thread::sleep_for(milliseconds(500));
    return 0;
  });
  ExpectAllEndWell(&processes);
}

TEST_F(HostsTest, RanksThatDisagreeAboutTheirNumberAllFail) {
  ExpectDisagreement(cluster_, {{4, 0}, {4, 1}, {5, 2}, {4, 3}},
                     "ranks 0, 1 asked for a communicator of 4 ranks, rank 2 for one of 5");
}

TEST_F(HostsTest, ARankThatIsGivenTwiceFailsAll) {
  ExpectDisagreement(cluster_, {{4, 0}, {4, 1}, {4, 1}, {4, 3}}, "rank 1 was given twice");
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
    EXPECT_MENTIONS(nullptr, "rank 1 was given twice");
    EXPECT_EQ(ncclCommInitRank(&communicator, 3, id, 2), ncclInvalidUsage);
    waiting.join();
    EXPECT_EQ(first, ncclInvalidUsage);
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
  EXPECT_TRUE(other.daemon(0).WaitForLog("cluster.key_file")) << other.daemon(0).Log();
}

}  // namespace
}  // namespace harmonaize::testing
