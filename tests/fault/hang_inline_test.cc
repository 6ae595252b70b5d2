// Which rank hangs in the middle of an operation that the ranks carry out themselves.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/hosts_case.h"
#include "tests/support/late_pages.h"
#include "tests/support/overlapping_communicators.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Time within which a verdict has certainly come.
constexpr double kPatience = kSanitized ? 60 : 10;

/// Three ranks of one host that carry out all operations themselves: the daemon hears of none of
/// them, but by the ranks that wait. On a busy machine a rank may come so late that an operation
/// goes to the daemon before it begins. Then there is another round.
class HangInline : public ::testing::Test {
 protected:
  static constexpr size_t kElements = size_t{1} << 20;
  static constexpr int kMostRounds = 10;

  void SetUp() override {
    if (!LatePages(kElements).valid()) GTEST_SKIP() << "the kernel gives no userfaultfd";
  }
  /// What the daemon has said in this round.
  std::string Log() { return cluster_.daemon(0).Log().substr(begin_); }
  bool Says(const std::string& text) {
    const auto start = steady_clock::now();
    while (Log().find(text) == std::string::npos && SecondsSince(start) < kPatience) {
      std::this_thread::sleep_for(milliseconds(50));
    }
    return Log().find(text) != std::string::npos;
  }

  /// Data of which all but both ends come when the guilty rank has done something else.
  struct LateData {
    LatePages pages{kElements * sizeof(float)};
    std::thread arrival;

    void ArriveAfter(const std::function<void()>& what) {
      arrival = std::thread([this, what] {
        // Until the operation has begun.
        std::this_thread::sleep_for(milliseconds(300));
        what();
        pages.Arrive();
      });
    }
    ~LateData() {
      if (arrival.joinable()) arrival.join();
    }
  };
  static void AllReduceOf(void* data, ncclComm_t communicator, ncclResult_t result = ncclSuccess) {
    std::vector<float> sum(kElements, 1.0f);
    EXPECT_EQ(ncclAllReduce(data, sum.data(), kElements, ncclFloat, ncclSum, communicator, nullptr),
              result)
        << ncclGetLastError(communicator);
    if (result == ncclSuccess) {
      EXPECT_EQ(sum, std::vector<float>(kElements, 0.0f));
    }
  }

  /// Has ranks run `body` until the operation in the middle of which one of them hangs goes inline.
  /// The daemon then says that `name` does not get on, and `reason`. `release` ends the hang.
  using Body = std::function<void(HostedRanks& ranks, int rank, ncclComm_t world, LateData* late)>;
  void UntilInline(const Body& body, const std::string& name, const std::string& reason,
                   const std::function<void(HostedRanks* ranks)>& release) {
    for (int round = 0; round < kMostRounds; ++round) {
      begin_ = cluster_.daemon(0).Log().size();
      HostedRanks ranks(&cluster_, {0, 0, 0});
      ranks.Start([&](int rank) {
        LateData late;
        const ncclComm_t world = ranks.Join(rank);
        EXPECT_EQ(CountRanks(world), 3);
        body(ranks, rank, world, &late);
        return 0;
      });
      EXPECT_TRUE(Says(" does not get on: " + reason)) << Log();
      const bool went_inline =
          Log().find(name + " does not get on: " + reason) != std::string::npos;
      release(&ranks);
      if (went_inline || HasFailure()) return;
    }
    ADD_FAILURE() << "never inline: " << Log();
  }
  static void LetGo(HostedRanks* ranks, int rank) {
    kill(ranks->process(rank), SIGCONT);
    ExpectAllEndWell(ranks);
  }

  TestCluster cluster_{1, "[ranks]\nlate_after_seconds = 1\n[inline]\nheap_bytes = 100000000\n", "",
                       "", true};
  size_t begin_ = 0;
};

const char* const kInlineName = "AllReduce(1048576 x float32, sum)";

TEST_F(HangInline, ARankThatStopsInTheMiddleIsNamed) {
  UntilInline(
      [](HostedRanks&, int rank, ncclComm_t world, LateData* late) {
        rank == 1 ? late->ArriveAfter([] { raise(SIGSTOP); }) : late->pages.Arrive();
        AllReduceOf(late->pages.data(), world);
        if (rank != 1) {
          EXPECT_MENTIONS(world, "which is stopped: let it go on");
        }
        EXPECT_NCCL(ncclCommDestroy(world));
      },
      kInlineName, "not_filled (stopped) by rank 1 of",
      [this](HostedRanks* ranks) {
        for (const char* const innocent : {"by rank 0 of", "by rank 2 of", ", rank 2 of"}) {
          EXPECT_EQ(Log().find(innocent), std::string::npos) << Log();
        }
        kill(ranks->process(1), SIGCONT);
        EXPECT_TRUE(Says(" gets on: not_filled (stopped) by rank 1 of")) << Log();
        ExpectAllEndWell(ranks);
      });
}

TEST_F(HangInline, ARankThatSleepsInTheMiddleIsNamed) {
  UntilInline(
      [](HostedRanks&, int rank, ncclComm_t world, LateData* late) {
        rank == 1 ? late->ArriveAfter(
                        [] { std::this_thread::sleep_for(milliseconds(kSanitized ? 9000 : 4000)); })
                  : late->pages.Arrive();
        AllReduceOf(late->pages.data(), world);
        if (rank != 1) {
          EXPECT_MENTIONS(world, "which sleeps while it copies it");
        }
        EXPECT_NCCL(ncclCommDestroy(world));
      },
      kInlineName, "not_filled (sleeping) by rank 1 of", ExpectAllEndWell);
}

TEST_F(HangInline, ARankThatIsKilledInTheMiddleIsTheDeadOne) {
  UntilInline(
      [](HostedRanks&, int rank, ncclComm_t world, LateData* late) {
        rank == 1 ? late->ArriveAfter([] { raise(SIGSTOP); }) : late->pages.Arrive();
        AllReduceOf(late->pages.data(), world, ncclRemoteError);
        EXPECT_NCCL(ncclCommAbort(world));
      },
      kInlineName, "not_filled (stopped) by rank 1 of",
      [this](HostedRanks* ranks) {
        kill(ranks->process(1), SIGKILL);
        EXPECT_TRUE(Says("does not get on: dead (ended) by rank 1 of")) << Log();
        const std::vector<int> statuses = ranks->Wait();
        EXPECT_EQ(statuses[0], 0);
        EXPECT_EQ(statuses[2], 0);
      });
}

// The receiver alone tells of it. In the daemon it would be the sender's operation.
TEST_F(HangInline, ASenderThatStopsInTheMiddleIsNamed) {
  UntilInline(
      [](HostedRanks& ranks, int rank, ncclComm_t world, LateData* late) {
        if (rank == 1) {
          late->ArriveAfter([] { raise(SIGSTOP); });
          EXPECT_NCCL(ncclSend(late->pages.data(), kElements, ncclFloat, 2, world, nullptr));
        } else if (rank == 2) {
          std::vector<float> received(kElements, 1.0f);
          EXPECT_NCCL(ncclRecv(received.data(), kElements, ncclFloat, 1, world, nullptr));
          EXPECT_EQ(received, std::vector<float>(kElements, 0.0f));
        }
        // A rank that leaves ends the inline path.
        if (rank == 2) ranks.PublishId(1, {});
        ranks.ShareId(1, false);
        EXPECT_NCCL(ncclCommDestroy(world));
      },
      "Recv 2 <- 1", "not_filled (stopped) by rank 1 of",
      [](HostedRanks* ranks) { LetGo(ranks, 1); });
}

// Rank 0 waits, in the daemon, for rank 1, which waits inline for rank 2, which is stopped there.
TEST_F(HangInline, ACauseIsFollowedThroughIt) {
  UntilInline(
      [](HostedRanks&, int rank, ncclComm_t world, LateData* late) {
        const OverlappingCommunicators both(world, rank);
        const auto [first, last] = both;
        if (rank == 2) late->ArriveAfter([] { raise(SIGSTOP); });
        if (rank == 1) late->pages.Arrive();
        if (last != nullptr) AllReduceOf(late->pages.data(), last);
        if (first != nullptr) {
          EXPECT_EQ(AllReduce(first, 8), ncclSuccess);
        }
        both.DestroyWith(world);
      },
      kInlineName, "not_filled (stopped) by rank 1 of 'last'",
      [this](HostedRanks* ranks) {
        EXPECT_TRUE(
            Says("'first': AllReduce #0 does not get on: not_filled (stopped) by rank 1 of "
                 "'last'"))
            << Log();
        LetGo(ranks, 2);
      });
}

}  // namespace
}  // namespace harmonaize::testing
