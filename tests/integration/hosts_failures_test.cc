// How communicators that span hosts fail: what errors_test.cc proves of one host.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "harmonaize.h"
#include "src/base/file_descriptor.h"
#include "src/base/json_text.h"
#include "tests/support/eventually.h"
#include "tests/support/hosts_case.h"
#include "tests/support/late_pages.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

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

// A disagreement in a communicator of its own. A rank may be done with its part before others have
// begun theirs; then it hears of it from one of its next calls.
void ExpectDisagreement(TestCluster* cluster,
                        const std::function<ncclResult_t(int rank, ncclComm_t world)>& collective,
                        const std::vector<std::string>& texts) {
  RunOnHosts(cluster, {0, 1, 2}, [&](int rank, ncclComm_t world) {
    const ncclResult_t result = collective(rank, world);
    EXPECT_TRUE(result == ncclSuccess || result == ncclInvalidUsage) << ncclGetLastError(world);
    ncclResult_t next = result;
    const auto start = steady_clock::now();
    while (next == ncclSuccess && SecondsSince(start) < 20) next = AllReduce(world, 8);
    EXPECT_EQ(next, ncclInvalidUsage);
    for (const std::string& text : texts) EXPECT_MENTIONS(world, text);
    // All were told in time, or the communicator is revoked.
    next = AllReduce(world, 8);
    EXPECT_TRUE(next == ncclInvalidUsage || next == ncclSuccess) << ncclGetLastError(world);
  });
}

TEST_F(HostsTest, RootsThatDisagreeAreNamed) {
  for (const size_t count : {size_t{1}, size_t{100000}}) {
    std::vector<float> all(3 * 3 * (count + 1));
    const auto data = [&](int rank) { return &all[static_cast<size_t>(rank) * 3 * (count + 1)]; };
    const auto broadcast = [&](int rank, int root, size_t elements, ncclComm_t world) {
      return ncclBroadcast(data(rank), data(rank), elements, ncclFloat, root, world, nullptr);
    };
    ExpectDisagreement(cluster_,
                       [&](int rank, ncclComm_t world) {
                         return broadcast(rank, rank == 0 ? 0 : 1, count, world);
                       },
                       {"root 0", "root 1"});
    // Each takes itself for the root: nobody waits for anybody.
    ExpectDisagreement(
        cluster_, [&](int rank, ncclComm_t world) { return broadcast(rank, rank, count, world); },
        {"the ranks disagree", "root "});
    ExpectDisagreement(cluster_,
                       [&](int rank, ncclComm_t world) {
                         return ncclReduce(data(rank), data(rank), count, ncclFloat, ncclSum,
                                           (rank + 1) % 3, world, nullptr);
                       },
                       {"the ranks disagree", "root "});
    ExpectDisagreement(cluster_,
                       [&](int rank, ncclComm_t world) {
                         return ncclGather(data(rank), data(rank), count, ncclFloat,
                                           rank == 2 ? 2 : 0, world, nullptr);
                       },
                       {"root 0", "root 2"});
    ExpectDisagreement(cluster_,
                       [&](int rank, ncclComm_t world) {
                         return ncclScatter(data(rank), data(rank), count, ncclFloat,
                                            rank == 2 ? 2 : 0, world, nullptr);
                       },
                       {"root 0", "root 2"});
    // A root that is done as soon as its data is on its way, and hosts that are done when they
    // learn that another is at something else.
    for (int round = 0; round < 5; ++round) {
      ExpectDisagreement(cluster_,
                         [&](int rank, ncclComm_t world) {
                           return broadcast(rank, 0, rank == 2 ? count + 1 : count, world);
                         },
                         {"rank 2 asked for Broadcast"});
    }
  }
}

// Nobody waits for anybody, and nobody stays: it is enough that all end.
TEST_F(HostsTest, RanksThatDisagreeMayBeGoneBeforeItIsKnown) {
  for (int round = 0; round < 5; ++round) {
    RunOnHosts(cluster_, {0, 1, 2}, [](int rank, ncclComm_t world) {
      int value = rank;
      const ncclResult_t result = ncclBroadcast(&value, &value, 1, ncclInt, rank, world, nullptr);
      EXPECT_TRUE(result == ncclSuccess || result == ncclInvalidUsage) << ncclGetLastError(world);
    });
  }
}

TEST_F(HostsTest, ARootThatIsFarAheadIsHeldUp) {
  RunOnHosts(cluster_, {0, 1, 2}, [](int rank, ncclComm_t world) {
    constexpr int kOperations = 1000;  // more than a host may be ahead, and its streams may hold
    if (rank == 1) std::this_thread::sleep_for(milliseconds(50));
    for (int i = 0; i < kOperations; ++i) {
      int value = rank == 0 ? i : -1;
      EXPECT_NCCL(ncclBroadcast(&value, &value, 1, ncclInt, 0, world, nullptr));
      ASSERT_EQ(value, i);
    }
    EXPECT_EQ(CountRanks(world), 3);
  });
}

TEST_F(HostsTest, RanksThatDisagreeAboutNothingAreNamed) {
  RunOnHosts(cluster_, {0, 1, 2}, [](int rank, ncclComm_t world) {
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

TEST_F(HostsTest, MessagesMayDifferInType) {
  RunOnHosts(cluster_, {0, 1}, [](int rank, ncclComm_t world) {
    for (const size_t count : {size_t{3}, size_t{400001}}) {
      std::vector<double> data(count, rank == 0 ? 2.5 : 0);
      EXPECT_NCCL(rank == 0 ? ncclSend(data.data(), 8 * count, ncclUint8, 1, world, nullptr)
                            : ncclRecv(data.data(), count, ncclDouble, 0, world, nullptr));
      EXPECT_EQ(data, std::vector<double>(count, 2.5));
      if (rank == 1 && count == 3) {
        EXPECT_MENTIONS(world, "rank 0 sends 24 x uint8, rank 1 receives 3 x float64");
      }
    }
    EXPECT_EQ(CountRanks(world), 2);
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

// Rank 0 is at the home. Daemons hear of ranks of other hosts through it alone, if they have not
// ended themselves.
TEST_F(HostsTest, AllRanksAreToldWhichAreLost) {
  for (const int dead : {0, 1, 3}) {
    HostedRanks ranks(cluster_, {0, 1, 2, 1, 2, 0});
    ranks.Start([&](int rank) {
      const ncclComm_t world = ranks.Join(rank);
      EXPECT_EQ(CountRanks(world), 6);
      // The dead one waits until the others are done, too.
      ranks.PublishId(rank + 1, {});
      for (int other = 0; other < 6; ++other) ranks.ShareId(other + 1, false);
      if (rank == dead) raise(SIGKILL);
      EXPECT_EQ(AllReduce(world, 100), ncclRemoteError);
      // One that aborts after the communicator has ended.
      if (rank == 4) return ncclCommAbort(world) == ncclSuccess ? 0 : 1;
      std::vector<int> lost(6, -1);
      int count = 0;
      EXPECT_TRUE(Eventually(10, [&] {
        EXPECT_NCCL(hzLostRanks(world, 6, lost.data(), &count));
        return count == 2;
      }));
      lost.resize(2);
      EXPECT_EQ(lost, (std::vector<int>{dead, 4}));
      ncclComm_t rest = nullptr;
      EXPECT_NCCL(ncclCommShrink(world, lost.data(), 2, &rest, nullptr, NCCL_SHRINK_ABORT));
      EXPECT_EQ(CountRanks(rest), 4);
      EXPECT_NCCL(ncclCommDestroy(rest));
      EXPECT_NCCL(ncclCommAbort(world));
      return 0;
    });
    const std::vector<int> statuses = ranks.Wait();
    for (size_t rank = 0; rank < statuses.size(); ++rank) {
      if (static_cast<int>(rank) == dead) {
        EXPECT_TRUE(WIFSIGNALED(statuses[rank]));
      } else {
        EXPECT_EQ(statuses[rank], 0) << "rank " << rank << ", without rank " << dead;
      }
    }
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

// It has posted the operation, and the daemons carry it as far as there is anything to carry.
TEST_F(HostsTest, ARankThatDoesNotGetOnWithCopyingIsReported) {
  constexpr size_t kElements = size_t{1} << 18;
  if (!LatePages(size_t{1} << 20).valid())
    GTEST_SKIP() << "the kernel gives no userfaultfd to this user";
  for (const int late : {0, 2}) {
    RunOnHosts(cluster_, {0, 1, 1}, [late](int rank, ncclComm_t world) {
      EXPECT_EQ(CountRanks(world), 3);
      LatePages pages(kElements * sizeof(float));
      ASSERT_TRUE(pages.valid());
      std::vector<float> sum(kElements, 1.0f);
      std::thread arrival([&pages, rank, late] {
        if (rank == late) std::this_thread::sleep_for(kLate);
        pages.Arrive();
      });
      // On a busy machine another rank may be the last that is late.
      std::atomic<bool> over{false};
      bool told = false;
      std::thread listener([&] {
        const std::string named = "for the data of rank " + std::to_string(late);
        while (!over) {
          told = told || (Mentions(world, "AllReduce #1 has waited") && Mentions(world, named));
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
      });
      EXPECT_NCCL(
          ncclAllReduce(pages.data(), sum.data(), kElements, ncclFloat, ncclSum, world, nullptr));
      over = true;
      listener.join();
      arrival.join();
      EXPECT_EQ(sum, std::vector<float>(kElements, 0.0f));
      EXPECT_TRUE(told || rank == late) << ncclGetLastError(world);
    });
  }
}

// The same for a message: the sender's data does not come, or the receiver does not take it.
TEST_F(HostsTest, ARankThatDoesNotGetOnWithAMessageIsReported) {
  constexpr size_t kElements = size_t{3} << 20;  // more than its window holds
  if (!LatePages(size_t{1} << 20).valid())
    GTEST_SKIP() << "the kernel gives no userfaultfd to this user";
  for (const int late : {0, 1}) {
    RunOnHosts(cluster_, {0, 1}, [late](int rank, ncclComm_t world) {
      LatePages pages(kElements * sizeof(float));
      ASSERT_TRUE(pages.valid());
      std::thread arrival([&pages, rank, late] {
        if (rank == late) std::this_thread::sleep_for(kLate);
        pages.Arrive();
      });
      EXPECT_NCCL(rank == 0 ? ncclSend(pages.data(), kElements, ncclFloat, 1, world, nullptr)
                            : ncclRecv(pages.data(), kElements, ncclFloat, 0, world, nullptr));
      arrival.join();
      if (rank == late) return;
      EXPECT_MENTIONS(world, "has waited");
      EXPECT_MENTIONS(world, "for the data of rank " + std::to_string(late));
    });
  }
}

/// What `harmonaize status` of the daemon says of operations that wait.
std::string WaitingAt(DaemonProcess& daemon) {
  const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
  EXPECT_TRUE(status.ok()) << status.status().message();
  const nlohmann::json report = ReadJson(*status);
  std::string waiting;
  for (const auto& tenant : report.at("tenants")) {
    for (const auto& communicator : tenant.at("communicators")) {
      if (!communicator.at("waiting").empty()) waiting += JsonText(communicator.at("waiting"));
    }
  }
  return waiting;
}

TEST_F(HostsTest, TheStatusNamesLateRanksOfOtherHosts) {
  for (const bool rooted : {false, true}) {
    HostedRanks ranks(cluster_, {0, 1, 2});
    ranks.Start([&](int rank) {
      const ncclComm_t world = ranks.Join(rank);
      EXPECT_EQ(CountRanks(world), 3);
      if (rank == 2) ranks.ShareId(1, false);
      int value = rank;
      // Rank 0 is done with its part of a reduction at once, and the root waits.
      EXPECT_NCCL(rooted ? ncclReduce(&value, &value, 1, ncclInt, ncclMin, 1, world, nullptr)
                         : ncclAllReduce(&value, &value, 1, ncclInt, ncclMin, world, nullptr));
      if (!rooted || rank == 1) {
        EXPECT_EQ(value, 0);
      }
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
      const ncclComm_t world = ranks.Join(rank);
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
    const ncclComm_t world = ranks.Join(rank);
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
}  // namespace
}  // namespace harmonaize::testing
