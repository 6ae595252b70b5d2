// Which rank hangs, and why: on one host, and on three.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/hosts_case.h"
#include "tests/support/late_pages.h"
#include "tests/support/overlapping_communicators.h"
#include "tests/support/private_data.h"
#include "tests/support/three_ranks_case.h"

namespace harmonaize::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Time within which a verdict has certainly come.
constexpr double kPatience = kSanitized ? 60 : 10;

class HangTest : public ThreeRanksTest {
 protected:
  void SetUp() override {
    for (int host = 0; host < cluster_->hosts(); ++host) {
      begin_.push_back(cluster_->daemon(host).Log().size());
    }
  }

  /// What the daemon of a rank has logged since the test began.
  std::string LogOf(int rank) const {
    const int host = GetParam()[static_cast<size_t>(rank)];
    return cluster_->daemon(host).Log().substr(begin_[static_cast<size_t>(host)]);
  }
  /// Waits until the daemon of a rank says this.
  bool Says(int rank, const std::string& text) const {
    return Eventually(kPatience, [&] { return LogOf(rank).find(text) != std::string::npos; });
  }
#define EXPECT_SAYS(rank, text) EXPECT_TRUE(Says(rank, text)) << LogOf(rank)

  /// Runs three ranks. Before its second collective rank 1 does something, until `release` of the
  /// parent has returned. What rank 0 reads afterwards holds `mentions`.
  void Run(const std::function<void(HostedRanks& ranks)>& hang, const std::string& mentions,
           const std::function<void(HostedRanks& ranks)>& meanwhile) {
    HostedRanks ranks(cluster_, GetParam());
    Start(&ranks, [&](int rank, ncclComm_t world) {
      if (rank == 1) hang(ranks);
      EXPECT_EQ(AllReduce(world, 8), ncclSuccess) << ncclGetLastError(world);
      if (rank == 0) {
        EXPECT_MENTIONS(world, Second() + " has waited");
        EXPECT_MENTIONS(world, mentions);
      }
      EXPECT_NCCL(ncclCommDestroy(world));
    });
    meanwhile(ranks);
    ExpectAllEndWell(&ranks);
  }
  /// The third rank, on a third host, tells which of two that disagree is wrong.
  void ExpectMismatchByRank1() const {
    EXPECT_SAYS(0, "does not get on: mismatch (unknown) by rank 1 of");
    for (const char* const innocent : {"by rank 0 of", "by rank 2 of", ", rank 2 of"}) {
      EXPECT_EQ(LogOf(0).find(innocent), std::string::npos) << LogOf(0);
    }
  }
  /// Runs three ranks, of which rank 1 asks for something else. errors_test and hosts_failures_test
  /// check what the ranks are told.
  void RunMismatch(const std::function<void(int rank, ncclComm_t world)>& ask) {
    HostedRanks ranks(cluster_, GetParam());
    Start(&ranks, [&](int rank, ncclComm_t world) {
      ask(rank, world);
      AwaitRelease(ranks);
      EXPECT_NCCL(ncclCommAbort(world));
    });
    ExpectMismatchByRank1();
    Release(ranks);
    ExpectAllEndWell(&ranks);
  }

  std::vector<size_t> begin_;  // by host
};

INSTANTIATE_THREE_RANKS(HangTest);

TEST_P(HangTest, AStoppedRankIsNamedWithinFiveSeconds) {
  Run([](HostedRanks&) { raise(SIGSTOP); }, "which is stopped",
      [&](HostedRanks& ranks) {
        ExpectStopped(ranks.process(1));
        EXPECT_SAYS(0, Second() + " does not get on: not_called (stopped) by rank 1 of");
        EXPECT_SAYS(2, Second() + " does not get on: not_called (stopped) by rank 1 of");
        kill(ranks.process(1), SIGCONT);
      });
  EXPECT_SAYS(0, Second() + " gets on");
}

TEST_P(HangTest, ARankThatSleepsIsNamed) {
  Run([](HostedRanks&) { std::this_thread::sleep_for(milliseconds(kSanitized ? 9000 : 4000)); },
      "sleeps outside of this library",
      [&](HostedRanks&) {
        EXPECT_SAYS(0, Second() + " does not get on: not_called (sleeping) by rank 1 of");
      });
  EXPECT_SAYS(0, Second() + " gets on: called_late (sleeping) by rank 1 of");
}

TEST_P(HangTest, ARankThatReadsWhatDoesNotComeIsNamed) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  Run(
      [&](HostedRanks&) {
        char byte = 0;
        EXPECT_EQ(read(ends[0], &byte, 1), 1);
      },
      "sleeps outside of this library",
      [&](HostedRanks&) {
        EXPECT_SAYS(0, Second() + " does not get on: not_called (sleeping) by rank 1 of");
        EXPECT_EQ(write(ends[1], "x", 1), 1);
      });
  close(ends[0]);
  close(ends[1]);
}

TEST_P(HangTest, ARankThatWaitsForALockIsNamed) {
  char path[] = "/tmp/harmonaize-hang-XXXXXX";
  const int held = mkstemp(path);
  ASSERT_GE(held, 0);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  Run(
      [&](HostedRanks&) {
        const int own = open(path, O_RDWR | O_CLOEXEC);
        EXPECT_EQ(flock(own, LOCK_EX), 0);
        close(own);
      },
      "sleeps outside of this library",
      [&](HostedRanks&) {
        EXPECT_SAYS(0, Second() + " does not get on: not_called (sleeping) by rank 1 of");
        EXPECT_EQ(flock(held, LOCK_UN), 0);
      });
  close(held);
  unlink(path);
}

TEST_P(HangTest, ARankThatComputesIsNoFault) {
  Run(
      [](HostedRanks&) {
        const auto start = steady_clock::now();
        while (SecondsSince(start) < 5) {
        }
      },
      "which computes", [](HostedRanks&) {});
  EXPECT_SAYS(0, Second() + " does not get on: computing (running) by rank 1 of");
  EXPECT_SAYS(0, Second() + " gets on: called_late (running) by rank 1 of");
  EXPECT_EQ(LogOf(0).find("not_called"), std::string::npos) << LogOf(0);
}

TEST_P(HangTest, ADeadRankIsNamed) {
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [&](int rank, ncclComm_t world) {
    if (rank == 1) {
      // Once the others have heard of the end of the first operation.
      std::this_thread::sleep_for(milliseconds(300));
      raise(SIGKILL);
    }
    EXPECT_EQ(AllReduce(world, 8), ncclRemoteError);
    EXPECT_MENTIONS(world, "rank 1");
    AwaitRelease(ranks);
    EXPECT_NCCL(ncclCommAbort(world));
  });
  EXPECT_SAYS(0, "does not get on: dead (ended) by rank 1 of");
  EXPECT_SAYS(1, "does not get on: dead (ended) by rank 1 of");
  EXPECT_SAYS(2, "does not get on: dead (ended) by rank 1 of");
  Release(ranks);
  const std::vector<int> statuses = ranks.Wait();
  EXPECT_EQ(statuses[0], 0);
  EXPECT_EQ(statuses[2], 0);
}

TEST_P(HangTest, RanksThatAskForOtherThingsAreNamed) {
  struct Asked {
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
  };
  for (const Asked& asked :
       {Asked{9, ncclFloat, ncclSum}, Asked{8, ncclInt, ncclSum}, Asked{8, ncclFloat, ncclMax}}) {
    SetUp();
    RunMismatch([&](int rank, ncclComm_t world) {
      static_cast<void>(rank == 1 ? AllReduce(world, asked.count, asked.type, asked.op)
                                  : AllReduce(world, 8));
    });
  }
}

TEST_P(HangTest, ARankThatAsksForAnotherRootIsNamed) {
  RunMismatch([](int rank, ncclComm_t world) {
    int value = rank;
    static_cast<void>(
        ncclReduce(&value, &value, 1, ncclInt, ncclSum, rank == 1 ? 1 : 0, world, nullptr));
  });
}

// It has posted the operation, and stops while its data is copied by the ranks for the daemon.
TEST(HangWhileFilling, ARankThatStopsWhileItFillsIsNamed) {
  constexpr size_t kElements = size_t{1} << 20;
  if (!LatePages(size_t{1} << 20).valid())
    GTEST_SKIP() << "the kernel gives no userfaultfd to this user";
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 0}, std::vector<int>{0, 1, 1}}) {
    TestCluster cluster(hosts.back() + 1,
                        fmt::format("[ranks]\nlate_after_seconds = 1\n{}", kAllByDaemon), "", "",
                        true);
    HostedRanks ranks(&cluster, hosts);
    ranks.Start([&](int rank) {
      const ncclComm_t world = ranks.Join(rank);
      EXPECT_EQ(CountRanks(world), 3);
      LatePages pages(kElements * sizeof(float));
      EXPECT_TRUE(pages.valid());
      std::vector<float> sum(kElements, 1.0f);
      std::thread arrival([&] {
        if (rank == 1) {
          std::this_thread::sleep_for(milliseconds(300));
          raise(SIGSTOP);
        }
        pages.Arrive();
      });
      EXPECT_NCCL(
          ncclAllReduce(pages.data(), sum.data(), kElements, ncclFloat, ncclSum, world, nullptr));
      arrival.join();
      EXPECT_EQ(sum, std::vector<float>(kElements, 0.0f));
      EXPECT_NCCL(ncclCommDestroy(world));
      return 0;
    });
    EXPECT_TRUE(cluster.daemon(0).WaitForLog(
        "AllReduce #1 does not get on: not_filled (stopped) by rank 1 of"))
        << cluster.daemon(0).Log();
    kill(ranks.process(1), SIGCONT);
    ExpectAllEndWell(&ranks);
  }
}

// Two ranks of the home's host disagree, and the home waits for what the rank of another host asks
// for, which is killed meanwhile. In a round in which that is heard of first there is nothing to
// disagree about.
TEST_P(HangTest, ADisagreementIsToldThoughARankDiesMeanwhile) {
  if (OneHost()) GTEST_SKIP() << "one host knows at once what all of its ranks ask for";
  const std::string told = "does not get on: mismatch (unknown) by rank 0 of";
  const std::vector<int> hosts = {0, 0, 1};
  constexpr int kMostRounds = 10;
  for (int round = 0; round < kMostRounds && LogOf(0).find(told) == std::string::npos; ++round) {
    HostedRanks ranks(cluster_, hosts);
    Start(&ranks, [&](int rank, ncclComm_t world) {
      if (rank == 2) {
        ranks.ShareId(1, false);
        std::this_thread::sleep_for(milliseconds(4 * round));
        raise(SIGKILL);
      }
      if (rank == 1) ranks.PublishId(1, {});
      EXPECT_NE(AllReduce(world, rank == 1 ? 9 : 8), ncclSuccess);
      EXPECT_NCCL(ncclCommAbort(world));
    });
    const std::vector<int> statuses = ranks.Wait();
    EXPECT_EQ(statuses[0], 0);
    EXPECT_EQ(statuses[1], 0);
  }
  EXPECT_NE(LogOf(0).find(told), std::string::npos) << LogOf(0);
}

TEST_P(HangTest, ASenderThatStopsIsNamed) {
  HostedRanks ranks(cluster_, GetParam());
  ranks.Start([&](int rank) {
    const ncclComm_t world = ranks.Join(rank);
    int value = 5;
    if (rank == 1) {
      raise(SIGSTOP);
      EXPECT_NCCL(ncclSend(&value, 1, ncclInt, 2, world, nullptr));
    } else if (rank == 2) {
      EXPECT_NCCL(ncclRecv(&value, 1, ncclInt, 1, world, nullptr));
    }
    EXPECT_NCCL(ncclCommDestroy(world));
    return 0;
  });
  EXPECT_SAYS(2, "Recv 2 <- 1 does not get on: not_called (stopped) by rank 1 of");
  kill(ranks.process(1), SIGCONT);
  ExpectAllEndWell(&ranks);
}

// Rank 0 waits for rank 1, which waits in another communicator for rank 2, which is stopped.
TEST_P(HangTest, ACauseIsFollowedToItsRoot) {
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [&](int rank, ncclComm_t world) {
    const OverlappingCommunicators both(world, rank);
    const auto [first, last] = both;
    if (rank == 2) raise(SIGSTOP);
    if (last != nullptr) {
      EXPECT_EQ(AllReduce(last, 8), ncclSuccess);
    }
    if (first != nullptr) {
      EXPECT_EQ(AllReduce(first, 8), ncclSuccess);
    }
    if (rank == 0) {
      EXPECT_MENTIONS(first, "for rank 1");
      EXPECT_MENTIONS(first, "waiting in communicator 'last' for rank 1, which is stopped");
    }
    both.DestroyWith(world);
  });
  EXPECT_SAYS(0, "'first': AllReduce #0 does not get on: not_called (stopped) by rank 1 of 'last'");
  EXPECT_SAYS(1, "'last': AllReduce #0 does not get on: not_called (stopped) by rank 1 of 'last'");
  kill(ranks.process(2), SIGCONT);
  ExpectAllEndWell(&ranks);
}

// A rank that waits for its stream is told who is late while it waits, not only afterwards.
TEST_P(HangTest, ARankThatWaitsForItsStreamIsToldWhoIsLate) {
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [&](int rank, ncclComm_t world) {
    const Stream stream;
    void* data = nullptr;
    EXPECT_NCCL(ncclMemAlloc(&data, 4096));
    if (rank == 1) AwaitRelease(ranks);
    EXPECT_NCCL(ncclAllReduce(data, data, 1024, ncclFloat, ncclSum, world, stream));
    std::thread waits([&] { EXPECT_NCCL(hzStreamSynchronize(stream)); });
    if (rank == 0) {
      const auto start = steady_clock::now();
      const auto told = [&] {
        return std::string(ncclGetLastError(world)).find("rank 1") != std::string::npos;
      };
      while (!told() && SecondsSince(start) < kPatience) {
        std::this_thread::sleep_for(milliseconds(50));
      }
      EXPECT_TRUE(told()) << ncclGetLastError(world);
      EXPECT_EQ(hzStreamQuery(stream), ncclInProgress) << "it was told after the wait";
      Release(ranks);
    }
    waits.join();
    EXPECT_NCCL(ncclMemFree(data));
    EXPECT_NCCL(ncclCommDestroy(world));
  });
  ExpectAllEndWell(&ranks);
}

// A program that only asks its stream, and never waits for it, is told as well.
TEST_P(HangTest, ARankThatAsksItsStreamIsToldWhoIsLate) {
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [&](int rank, ncclComm_t world) {
    const Stream stream;
    void* data = nullptr;
    EXPECT_NCCL(ncclMemAlloc(&data, 4096));
    if (rank == 1) AwaitRelease(ranks);
    EXPECT_NCCL(ncclAllReduce(data, data, 1024, ncclFloat, ncclSum, world, stream));
    const auto start = steady_clock::now();
    bool released = rank != 0;
    while (hzStreamQuery(stream) == ncclInProgress && SecondsSince(start) < kPatience) {
      const bool told = std::string(ncclGetLastError(world)).find("rank 1") != std::string::npos;
      if (told && !released) {
        released = true;
        Release(ranks);
      }
      std::this_thread::sleep_for(milliseconds(20));
    }
    EXPECT_TRUE(released) << ncclGetLastError(world);
    EXPECT_NCCL(hzStreamSynchronize(stream));
    EXPECT_NCCL(ncclMemFree(data));
    EXPECT_NCCL(ncclCommDestroy(world));
  });
  ExpectAllEndWell(&ranks);
}

// Hundreds of operations are posted ahead of a rank that takes its time.
TEST_P(HangTest, OperationsThatAreQueuedAreNoFault) {
  HostedRanks ranks(cluster_, GetParam());
  Start(&ranks, [&](int rank, ncclComm_t world) {
    constexpr int kQueued = 300;
    const Stream stream;
    void* data = nullptr;
    EXPECT_NCCL(ncclMemAlloc(&data, 4096));
    const auto start = steady_clock::now();
    for (int i = 0; i < kQueued; ++i) {
      // Rank 1 computes between its operations, for three seconds in all.
      while (rank == 1 && SecondsSince(start) < 0.01 * i) {
      }
      EXPECT_NCCL(ncclAllReduce(data, data, 1024, ncclFloat, ncclSum, world, stream));
    }
    EXPECT_NCCL(hzStreamSynchronize(stream));
    EXPECT_NCCL(ncclMemFree(data));
    EXPECT_NCCL(ncclCommDestroy(world));
  });
  ExpectAllEndWell(&ranks);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(LogOf(rank).find("does not get on: not_called"), std::string::npos) << LogOf(rank);
  }
}

TEST_P(HangTest, ADaemonThatDoesNotAnswerIsNamed) {
  if (OneHost()) GTEST_SKIP() << "there is one daemon";
  for (const int stopped : {2, 0}) {  // 0: the home
    const pid_t daemon = cluster_->daemon(stopped).pid();
    HostedRanks ranks(cluster_, GetParam());
    Start(&ranks, [&](int, ncclComm_t world) {
      EXPECT_EQ(CountRanks(world), 3);
      AwaitRelease(ranks);
      EXPECT_EQ(AllReduce(world, 8), ncclSuccess) << ncclGetLastError(world);
      EXPECT_NCCL(ncclCommDestroy(world));
    });
    std::this_thread::sleep_for(milliseconds(1000));
    kill(daemon, SIGSTOP);
    int status = 0;
    EXPECT_EQ(waitpid(daemon, &status, WUNTRACED), daemon);
    Release(ranks);
    EXPECT_SAYS(
        1, fmt::format("does not get on: daemon_unreachable (unknown) by rank {} of", stopped));
    kill(daemon, SIGCONT);
    ExpectAllEndWell(&ranks);
  }
}

}  // namespace
}  // namespace harmonaize::testing
