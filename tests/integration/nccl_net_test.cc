// NCCL's net plugin, driven as NCCL drives it, between processes of one host and of two.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "plugins/nccl-net/net_abi.h"
#include "tests/support/cluster.h"
#include "tests/support/net_connections.h"
#include "tests/support/net_plugin.h"
#include "tests/support/other_users.h"
#include "tests/support/sanitized.h"
#include "tests/support/shared_by_processes.h"

namespace harmonaize::testing {
namespace {

constexpr int kLatest = 12;

/// Handles that one process makes and another reads, and how far they have come.
struct Board {
  static constexpr int kHandles = 1024;
  NetHandle handles[kHandles];
  std::atomic<bool> there[kHandles];
  std::atomic<int> stage;
  char socket[256];  ///< Of a daemon that was started anew.
};

/// A process that uses the plugin by one version.
struct Process {
  explicit Process(int version = kLatest) : plugin(NetPlugin::Load(version)), net(&plugin) {
    EXPECT_EQ(plugin.init(), ncclSuccess) << NetLog();
  }

  NetPlugin plugin;
  NetConnections net;
};

class NcclNet : public ::testing::Test {
 protected:
  /// Runs `sender` as rank 0 and `receiver` as rank 1, each in a process of its own at its host.
  void RunPair(TestCluster* cluster, std::vector<int> hosts, const std::function<void()>& sender,
               const std::function<void()>& receiver) {
    HostedRanks ranks(cluster, std::move(hosts));
    ranks.Start([&](int rank) {
      rank == 0 ? sender() : receiver();
      return 0;
    });
    for (const int status : ranks.Wait()) EXPECT_EQ(status, 0);
  }

  void Publish(int slot, const NetHandle& handle) {
    board_->handles[slot] = handle;
    board_->there[slot].store(true);
  }
  NetHandle Await(int slot) {
    AwaitThat([&] { return board_->there[slot].load(); });
    return board_->handles[slot];
  }
  void ReachStage(int stage) { board_->stage.store(stage); }
  void AwaitStage(int stage) {
    AwaitThat([&] { return board_->stage.load() >= stage; });
  }
  /// Waits, and fails the process after two minutes.
  static void AwaitThat(const std::function<bool()>& reached) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (!reached()) {
      if (std::chrono::steady_clock::now() > until) {
        ADD_FAILURE() << "the other process has not come so far";
        abort();
      }
      sched_yield();
    }
  }

  /// Makes a connection from the process that calls Connect to the one that calls Accept.
  void* Connect(Process* process, int slot = 0) { return process->net.Connect(Await(slot)); }
  void* Accept(Process* process, int slot = 0) {
    NetHandle handle;
    void* const listen = process->net.Listen(&handle);
    Publish(slot, handle);
    void* const receive = process->net.Accept(listen);
    EXPECT_EQ(process->plugin.close_listen(listen), ncclSuccess);
    return receive;
  }

  void ExpectCarried(int version, std::vector<int> hosts, int slot);

  SharedByProcesses<Board> board_;
};

void ExpectBytes(const std::vector<uint8_t>& expected, const uint8_t* found) {
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found)) << expected.size() << " bytes";
}

// ---------------------------------------------------------------------------------------------
// Messages

void NcclNet::ExpectCarried(int version, std::vector<int> hosts, int slot) {
  SCOPED_TRACE("version " + std::to_string(version));
  const std::vector<size_t> sizes = {
      0, 1, 8, 4096, 70'000, size_t{1} << 19, (size_t{1} << 19) + 1, size_t{5} << 20};
  TestCluster cluster(2);
  RunPair(
      &cluster, std::move(hosts),
      [&] {
        Process process(version);
        void* const send = Connect(&process, slot);
        for (const size_t bytes : sizes) {
          const std::vector<uint8_t> data = NetBytes(bytes, bytes);
          NetRequest request = process.net.Send(send, data.data(), bytes, 7);
          process.net.Wait(&request);
          EXPECT_EQ(request.sizes[0], static_cast<int>(bytes));
        }
        EXPECT_EQ(process.plugin.close_send(send), ncclSuccess);
      },
      [&] {
        Process process(version);
        void* const receive = Accept(&process, slot);
        std::vector<uint8_t> buffer(size_t{6} << 20);
        for (const size_t bytes : sizes) {
          NetRequest request = process.net.Receive(receive, buffer.data(), buffer.size(), 7);
          process.net.Wait(&request);
          ASSERT_EQ(request.sizes[0], static_cast<int>(bytes));
          ExpectBytes(NetBytes(bytes, bytes), buffer.data());
        }
        EXPECT_EQ(process.plugin.close_recv(receive), ncclSuccess);
      });
}

TEST_F(NcclNet, EachVersionCarriesMessagesBetweenHosts) {
  for (const int version : NetPlugin::Versions()) ExpectCarried(version, {0, 1}, version);
}

TEST_F(NcclNet, MessagesGoBetweenProcessesOfOneHost) {
  ExpectCarried(kLatest, {0, 0}, 0);
}

/// What both sides of RandomMessages know: the messages, by their order and tag.
struct RandomPlan {
  static constexpr int kTags = 3;
  explicit RandomPlan(uint32_t seed) {
    std::mt19937 random(seed);
    const int count = kSanitized ? 60 : 400;
    for (int i = 0; i < count; ++i) {
      const int kind = static_cast<int>(random() % 10);
      size_t bytes = random() % 300;
      if (kind > 5) bytes = random() % 200'000;
      if (kind == 9) bytes = random() % (size_t{3} << 20);
      if (kind == 5) bytes = 0;
      messages.push_back({static_cast<int>(random() % kTags), bytes});
    }
  }
  std::vector<std::pair<int, size_t>> messages;  // tag, bytes
};

TEST_F(NcclNet, RandomMessagesOfSeveralTagsArriveWholeAndInOrder) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const RandomPlan plan(seed);
  TestCluster cluster(2);
  RunPair(
      &cluster, {0, 1},
      [&] {
        Process process;
        void* const send = Connect(&process);
        std::deque<std::pair<std::vector<uint8_t>, NetRequest>> under_way;
        for (size_t i = 0; i < plan.messages.size(); ++i) {
          const auto& [tag, bytes] = plan.messages[i];
          under_way.emplace_back(NetBytes(bytes, i), NetRequest{});
          auto& [data, request] = under_way.back();
          request = process.net.Send(send, data.data(), bytes, tag);
          if (under_way.size() < nccl_abi::kNetRequests) continue;
          process.net.Wait(&under_way.front().second);
          under_way.pop_front();
        }
        for (auto& [data, request] : under_way) process.net.Wait(&request);
        EXPECT_EQ(process.plugin.close_send(send), ncclSuccess);
      },
      [&] {
        Process process;
        void* const receive = Accept(&process);
        std::mt19937 random(seed + 1);
        struct Posted {
          size_t message;
          std::vector<uint8_t> buffer;
          NetRequest request;
        };
        // Tags are received in another order than they were sent in, within a few messages.
        std::deque<Posted> under_way;
        const auto finish = [&](Posted& posted) {
          process.net.Wait(&posted.request);
          const size_t bytes = plan.messages[posted.message].second;
          EXPECT_EQ(posted.request.sizes[0], static_cast<int>(bytes));
          ExpectBytes(NetBytes(bytes, posted.message), posted.buffer.data());
        };
        for (size_t first = 0; first < plan.messages.size(); first += 8) {
          std::vector<size_t> order;
          for (size_t i = first; i < std::min(first + 8, plan.messages.size()); ++i) {
            order.push_back(i);
          }
          std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
            return plan.messages[a].first < plan.messages[b].first;
          });
          for (const size_t i : order) {
            const auto& [tag, bytes] = plan.messages[i];
            Posted& posted = under_way.emplace_back();
            posted.message = i;
            posted.buffer.resize(bytes + random() % 1000);
            posted.request =
                process.net.Receive(receive, posted.buffer.data(), posted.buffer.size(), tag);
          }
          while (under_way.size() > 16) {
            finish(under_way.front());
            under_way.pop_front();
          }
        }
        for (Posted& posted : under_way) finish(posted);
        EXPECT_EQ(process.plugin.close_recv(receive), ncclSuccess);
      });
}

TEST_F(NcclNet, GroupedReceivesEndTogether) {
  TestCluster cluster(2);
  constexpr int kRounds = 5;
  RunPair(
      &cluster, {0, 1},
      [&] {
        Process process;
        void* const send = Connect(&process);
        for (int round = 0; round < kRounds; ++round) {
          std::vector<std::vector<uint8_t>> data;
          std::vector<NetRequest> requests;
          // In another order than the receiver names the tags.
          for (int tag = 7; tag >= 0; --tag) {
            data.push_back(NetBytes(static_cast<size_t>(tag) * 50'000, static_cast<uint64_t>(tag)));
            requests.push_back(process.net.Send(send, data.back().data(), data.back().size(), tag));
          }
          process.net.Wait(&requests);
        }
        EXPECT_EQ(process.plugin.close_send(send), ncclSuccess);
      },
      [&] {
        Process process;
        void* const receive = Accept(&process);
        for (int round = 0; round < kRounds; ++round) {
          std::vector<std::vector<uint8_t>> buffers(8, std::vector<uint8_t>(400'000));
          std::vector<void*> data;
          std::vector<size_t> bytes;
          std::vector<int> tags;
          for (int tag = 0; tag < 8; ++tag) {
            data.push_back(buffers[static_cast<size_t>(tag)].data());
            bytes.push_back(buffers[static_cast<size_t>(tag)].size());
            tags.push_back(tag);
          }
          NetRequest request = process.net.ReceiveGroup(receive, data, bytes, tags);
          process.net.Wait(&request);
          for (size_t tag = 0; tag < 8; ++tag) {
            ASSERT_EQ(request.sizes[tag], static_cast<int>(tag * 50'000));
            ExpectBytes(NetBytes(tag * 50'000, tag), buffers[tag].data());
          }
        }
        EXPECT_EQ(process.plugin.close_recv(receive), ncclSuccess);
      });
}

TEST_F(NcclNet, AGibibyteArrives) {
  if (kSanitized) GTEST_SKIP() << "takes long";
  constexpr size_t kBytes = size_t{1} << 30;
  TestCluster cluster(2);
  RunPair(
      &cluster, {0, 1},
      [&] {
        Process process;
        void* const send = Connect(&process);
        std::vector<uint64_t> data(kBytes / 8);
        for (size_t i = 0; i < data.size(); ++i) data[i] = i * 0x9e3779b97f4a7c15u;
        NetRequest request = process.net.Send(send, data.data(), kBytes, 0);
        process.net.Wait(&request);
        EXPECT_EQ(process.plugin.close_send(send), ncclSuccess);
      },
      [&] {
        Process process;
        void* const receive = Accept(&process);
        std::vector<uint64_t> data(kBytes / 8 + 100);
        NetRequest request = process.net.Receive(receive, data.data(), data.size() * 8, 0);
        process.net.Wait(&request);
        EXPECT_EQ(request.sizes[0], static_cast<int>(kBytes));
        size_t wrong = 0;
        for (size_t i = 0; i < kBytes / 8; ++i) wrong += data[i] != i * 0x9e3779b97f4a7c15u;
        EXPECT_EQ(wrong, 0u);
        EXPECT_EQ(process.plugin.close_recv(receive), ncclSuccess);
      });
}

TEST_F(NcclNet, AMessageThatIsTooLongIsAnErrorAtBothEnds) {
  TestCluster cluster(2);
  for (const std::vector<int>& hosts : {std::vector{0, 1}, std::vector{0, 0}}) {
    const int slot = hosts[1];
    RunPair(
        &cluster, hosts,
        [&] {
          Process process;
          void* const send = Connect(&process, slot);
          const std::vector<uint8_t> data(1000);
          NetRequest request = process.net.Send(send, data.data(), data.size(), 1);
          EXPECT_EQ(process.net.AwaitFailure(&request), ncclInvalidUsage) << NetLog();
          EXPECT_EQ(process.plugin.close_send(send), ncclSuccess);
        },
        [&] {
          Process process;
          void* const receive = Accept(&process, slot);
          std::vector<uint8_t> data(999);
          NetRequest request = process.net.Receive(receive, data.data(), data.size(), 1);
          EXPECT_EQ(process.net.AwaitFailure(&request), ncclInvalidUsage) << NetLog();
          EXPECT_EQ(process.plugin.close_recv(receive), ncclSuccess);
        });
  }
}

// ---------------------------------------------------------------------------------------------
// Connections

TEST_F(NcclNet, AProcessConnectsToItself) {
  TestCluster cluster(1);
  Process process;
  NetHandle handle;
  void* const listen = process.net.Listen(&handle);
  void* send = nullptr;
  void* receive = nullptr;
  while (send == nullptr || receive == nullptr) {
    if (send == nullptr) {
      ASSERT_EQ(process.plugin.connect(0, &handle, &send), ncclSuccess);
    }
    if (receive == nullptr) {
      ASSERT_EQ(process.plugin.accept(listen, &receive), ncclSuccess);
    }
  }
  const std::vector<uint8_t> data = NetBytes(100'000, 1);
  std::vector<uint8_t> buffer(100'000);
  NetRequest received = process.net.Receive(receive, buffer.data(), buffer.size(), 1);
  NetRequest sent = process.net.Send(send, data.data(), data.size(), 1);
  process.net.Wait(&sent);
  process.net.Wait(&received);
  EXPECT_EQ(data, buffer);
  EXPECT_EQ(process.plugin.close_send(send), ncclSuccess);
  EXPECT_EQ(process.plugin.close_recv(receive), ncclSuccess);
  EXPECT_EQ(process.plugin.close_listen(listen), ncclSuccess);
}

TEST_F(NcclNet, AThousandConnectionsShareOneWay) {
  constexpr int kConnections = kSanitized ? 200 : 1000;
  TestCluster cluster(2);
  RunPair(
      &cluster, {0, 1},
      [&] {
        Process process;
        std::vector<void*> sends;
        for (int i = 0; i < kConnections; ++i) sends.push_back(Connect(&process, i));
        std::vector<std::vector<uint8_t>> data;
        std::vector<NetRequest> requests;
        for (int i = 0; i < kConnections; ++i) {
          data.push_back(NetBytes(2000, static_cast<uint64_t>(i)));
          requests.push_back(
              process.net.Send(sends[static_cast<size_t>(i)], data.back().data(), 2000, i));
        }
        process.net.Wait(&requests);
        for (void* const send : sends) EXPECT_EQ(process.plugin.close_send(send), ncclSuccess);
      },
      [&] {
        Process process;
        std::vector<void*> receives;
        for (int i = 0; i < kConnections; ++i) receives.push_back(Accept(&process, i));
        std::vector<std::vector<uint8_t>> buffers(kConnections, std::vector<uint8_t>(2000));
        std::vector<NetRequest> requests;
        for (size_t i = 0; i < receives.size(); ++i) {
          requests.push_back(
              process.net.Receive(receives[i], buffers[i].data(), 2000, static_cast<int>(i)));
        }
        process.net.Wait(&requests);
        for (size_t i = 0; i < receives.size(); ++i)
          ExpectBytes(NetBytes(2000, i), buffers[i].data());
        for (void* const receive : receives) {
          EXPECT_EQ(process.plugin.close_recv(receive), ncclSuccess);
        }
      });
}

// A sender that has seen its messages received may close and end at once: nothing is lost.
TEST_F(NcclNet, ClosingAfterTheLastMessageLosesNothing) {
  TestCluster cluster(2);
  for (int round = 0; round < (kSanitized ? 5 : 30); ++round) {
    RunPair(
        &cluster, {0, 1},
        [&] {
          Process process;
          void* const send = Connect(&process, round);
          const std::vector<uint8_t> data = NetBytes(3000, 1);
          for (int i = 0; i < 20; ++i) {
            NetRequest request = process.net.Send(send, data.data(), data.size(), 1);
            process.net.Wait(&request);
          }
          EXPECT_EQ(process.plugin.close_send(send), ncclSuccess);
          if (round % 2 == 0) _exit(::testing::Test::HasFailure() ? 1 : 0);
        },
        [&] {
          Process process;
          void* const receive = Accept(&process, round);
          std::vector<uint8_t> buffer(3000);
          for (int i = 0; i < 20; ++i) {
            NetRequest request = process.net.Receive(receive, buffer.data(), buffer.size(), 1);
            process.net.Wait(&request);
          }
          EXPECT_EQ(process.plugin.close_recv(receive), ncclSuccess);
        });
  }
}

TEST_F(NcclNet, WhatWaitsEndsWhenTheOtherSideCloses) {
  TestCluster cluster(2);
  int slot = 0;
  for (const std::vector<int>& hosts : {std::vector{0, 1}, std::vector{0, 0}}) {
    for (const bool sender_closes : {true, false}) {
      const int own = slot++;
      RunPair(
          &cluster, hosts,
          [&] {
            Process process;
            void* const send = Connect(&process, own);
            if (!sender_closes) {
              const std::vector<uint8_t> data(2'000'000);
              NetRequest request = process.net.Send(send, data.data(), data.size(), 1);
              ReachStage(1);
              EXPECT_EQ(process.net.AwaitFailure(&request), ncclRemoteError) << NetLog();
            } else {
              AwaitStage(1);
            }
            EXPECT_EQ(process.plugin.close_send(send), ncclSuccess);
          },
          [&] {
            Process process;
            void* const receive = Accept(&process, own);
            std::vector<uint8_t> data(2'000'000);
            if (sender_closes) {
              NetRequest request = process.net.Receive(receive, data.data(), data.size(), 1);
              ReachStage(1);
              EXPECT_EQ(process.net.AwaitFailure(&request), ncclRemoteError) << NetLog();
            } else {
              AwaitStage(1);
            }
            EXPECT_EQ(process.plugin.close_recv(receive), ncclSuccess);
          });
      board_->stage.store(0);
    }
  }
}

// A connection with messages under way is closed, as after ncclCommAbort. Others go on.
TEST_F(NcclNet, ClosingInTheMiddleDisturbsNoOtherConnection) {
  TestCluster cluster(2);
  RunPair(
      &cluster, {0, 1},
      [&] {
        Process process;
        void* const kept = Connect(&process, 0);
        for (int round = 1; round <= 10; ++round) {
          void* const closed = Connect(&process, round);
          const std::vector<uint8_t> data = NetBytes(1'000'000, static_cast<uint64_t>(round));
          for (int i = 0; i < 4; ++i) process.net.Send(closed, data.data(), data.size(), 1);
          EXPECT_EQ(process.plugin.close_send(closed), ncclSuccess);
          NetRequest request = process.net.Send(kept, data.data(), data.size(), 1);
          process.net.Wait(&request);
        }
        EXPECT_EQ(process.plugin.close_send(kept), ncclSuccess);
      },
      [&] {
        Process process;
        void* const kept = Accept(&process, 0);
        std::vector<uint8_t> first(1'000'000);
        std::vector<uint8_t> second(1'000'000);
        for (int round = 1; round <= 10; ++round) {
          void* const closed = Accept(&process, round);
          process.net.Receive(closed, first.data(), first.size(), 1);
          NetRequest request = process.net.Receive(kept, second.data(), second.size(), 1);
          process.net.Wait(&request);
          ExpectBytes(NetBytes(1'000'000, static_cast<uint64_t>(round)), second.data());
          EXPECT_EQ(process.plugin.close_recv(closed), ncclSuccess);
        }
        EXPECT_EQ(process.plugin.close_recv(kept), ncclSuccess);
      });
}

TEST_F(NcclNet, ConnectingToAListenerThatIsGoneIsAnError) {
  TestCluster cluster(2);
  RunPair(
      &cluster, {0, 1},
      [&] {
        Process process;
        void* const kept = Connect(&process, 0);
        NetHandle gone = Await(1);
        AwaitStage(1);
        void* send = nullptr;
        ncclResult_t result = ncclSuccess;
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (result == ncclSuccess && send == nullptr &&
               std::chrono::steady_clock::now() < until) {
          result = process.plugin.connect(0, &gone, &send);
        }
        EXPECT_EQ(result, ncclRemoteError);
        EXPECT_NE(NetLog().find("does not listen"), std::string::npos) << NetLog();
        ReachStage(2);
        EXPECT_EQ(process.plugin.close_send(kept), ncclSuccess);
      },
      [&] {
        Process process;
        void* const kept = Accept(&process, 0);
        NetHandle handle;
        void* const listen = process.net.Listen(&handle);
        EXPECT_EQ(process.plugin.close_listen(listen), ncclSuccess);
        Publish(1, handle);
        ReachStage(1);
        NetHandle other;
        void* const another = process.net.Listen(&other);
        while (board_->stage.load() < 2) {  // somebody has to take in what comes
          void* receive = nullptr;
          ASSERT_EQ(process.plugin.accept(another, &receive), ncclSuccess);
        }
        EXPECT_EQ(process.plugin.close_listen(another), ncclSuccess);
        EXPECT_EQ(process.plugin.close_recv(kept), ncclSuccess);
      });
}

// ---------------------------------------------------------------------------------------------
// Calls that make no sense

TEST_F(NcclNet, EveryEntryOfEveryVersionStandsWrongCalls) {
  TestCluster cluster(1);
  for (const int version : NetPlugin::Versions()) {
    SCOPED_TRACE(version);
    Process process(version);
    NetPlugin& plugin = process.plugin;
    EXPECT_EQ(plugin.name, "Harmonaize");
    EXPECT_EQ(plugin.devices(nullptr), ncclInvalidArgument);
    int devices = 0;
    EXPECT_EQ(plugin.devices(&devices), ncclSuccess);
    EXPECT_EQ(devices, 1);
    NetProperties properties;
    EXPECT_EQ(plugin.properties(1, &properties), ncclInvalidArgument);
    EXPECT_EQ(plugin.properties(-1, &properties), ncclInvalidArgument);
    ASSERT_EQ(plugin.properties(0, &properties), ncclSuccess);
    EXPECT_EQ(properties.name, "harmonaize");
    EXPECT_EQ(properties.ptr_support, nccl_abi::kPointerToHost);
    EXPECT_EQ(properties.device_type, nccl_abi::kNetDeviceHost);
    EXPECT_EQ(properties.reg_is_global, 1);
    EXPECT_GE(properties.max_comms, 1000);
    EXPECT_EQ(properties.max_recvs, 8);
    EXPECT_GT(properties.speed, 0);
    if (version >= 9) {
      EXPECT_GE(properties.max_p2p_bytes, size_t{1} << 30);
      EXPECT_EQ(properties.virtual_devices, 1);
      EXPECT_EQ(plugin.make_virtual_device(), ncclInvalidUsage);
    }
    if (version >= 12) {
      EXPECT_EQ(properties.rail, nccl_abi::kNoNetId);
    }
    if (version >= 11) {
      EXPECT_EQ(plugin.set_attributes(), ncclSuccess);
    }

    NetHandle handle;
    void* made = nullptr;
    EXPECT_EQ(plugin.listen(1, &handle, &made), ncclInvalidArgument);
    EXPECT_EQ(plugin.listen(0, nullptr, &made), ncclInvalidArgument);
    EXPECT_EQ(plugin.listen(0, &handle, nullptr), ncclInvalidArgument);
    EXPECT_EQ(plugin.connect(0, nullptr, &made), ncclInvalidArgument);
    EXPECT_EQ(plugin.connect(0, &handle, nullptr), ncclInvalidArgument);
    EXPECT_EQ(plugin.connect(0, &handle, &made), ncclInvalidArgument) << "a handle of zeros";
    EXPECT_EQ(plugin.accept(nullptr, &made), ncclInvalidArgument);
    EXPECT_EQ(plugin.close_send(nullptr), ncclInvalidArgument);
    EXPECT_EQ(plugin.close_recv(nullptr), ncclInvalidArgument);
    EXPECT_EQ(plugin.close_listen(nullptr), ncclInvalidArgument);

    void* const listen = process.net.Listen(&handle);
    EXPECT_EQ(plugin.connect(7, &handle, &made), ncclInvalidArgument);
    EXPECT_EQ(plugin.accept(listen, nullptr), ncclInvalidArgument);
    EXPECT_EQ(plugin.accept(listen, &made), ncclSuccess);
    EXPECT_EQ(made, nullptr);
    void* send = nullptr;
    void* receive = nullptr;
    while (send == nullptr || receive == nullptr) {
      if (send == nullptr) {
        ASSERT_EQ(plugin.connect(0, &handle, &send), ncclSuccess);
      }
      if (receive == nullptr) {
        ASSERT_EQ(plugin.accept(listen, &receive), ncclSuccess);
      }
    }
    char data[8] = {};
    void* pointer = data;
    size_t bytes = sizeof data;
    int tag = 1;
    void* none = nullptr;
    void* request = nullptr;
    EXPECT_EQ(plugin.isend(nullptr, data, 8, 1, nullptr, &request), ncclInvalidArgument);
    EXPECT_EQ(plugin.isend(send, nullptr, 8, 1, nullptr, &request), ncclInvalidArgument);
    EXPECT_EQ(plugin.isend(send, data, 8, 1, nullptr, nullptr), ncclInvalidArgument);
    EXPECT_EQ(plugin.isend(receive, data, 8, 1, nullptr, &request), ncclInvalidUsage);
    EXPECT_EQ(plugin.irecv(send, 1, &pointer, &bytes, &tag, &none, &request), ncclInvalidUsage);
    EXPECT_EQ(plugin.irecv(receive, 0, &pointer, &bytes, &tag, &none, &request),
              ncclInvalidArgument);
    std::vector<void*> pointers(9, pointer);
    std::vector<size_t> nine(9, sizeof data);
    std::vector<int> tags(9, tag);
    std::vector<void*> nones(9, nullptr);
    EXPECT_EQ(
        plugin.irecv(receive, 9, pointers.data(), nine.data(), tags.data(), nones.data(), &request),
        ncclInvalidArgument);
    EXPECT_EQ(plugin.irecv(receive, 1, nullptr, &bytes, &tag, &none, &request),
              ncclInvalidArgument);
    EXPECT_EQ(plugin.irecv(receive, 1, &pointer, nullptr, &tag, &none, &request),
              ncclInvalidArgument);
    EXPECT_EQ(plugin.irecv(receive, 1, &pointer, &bytes, nullptr, &none, &request),
              ncclInvalidArgument);
    int done = 0;
    EXPECT_EQ(plugin.test(nullptr, &done, nullptr), ncclInvalidArgument);
    int sizes = 8;
    EXPECT_EQ(plugin.iflush(receive, 1, &pointer, &sizes, &none, &request), ncclSuccess);
    EXPECT_EQ(request, nullptr);
    EXPECT_EQ(plugin.get_device_mr(send, nullptr, &none), ncclInvalidUsage);
    EXPECT_EQ(plugin.irecv_consumed(receive, 1, nullptr), ncclInvalidUsage);

    void* registration = nullptr;
    EXPECT_EQ(plugin.reg_mr(send, data, 8, nccl_abi::kPointerToCuda, &registration),
              ncclInvalidArgument);
    EXPECT_EQ(plugin.reg_mr(send, nullptr, 8, nccl_abi::kPointerToHost, &registration),
              ncclInvalidArgument);
    EXPECT_EQ(plugin.reg_mr_dma_buf(send, data, 8, nccl_abi::kPointerToCuda, 0, 0, &registration),
              ncclInvalidUsage);
    ASSERT_EQ(plugin.reg_mr(send, data, 8, nccl_abi::kPointerToHost, &registration), ncclSuccess);
    EXPECT_EQ(plugin.isend(send, data + 4, 8, 1, registration, &request), ncclInvalidArgument)
        << "beyond what is registered";
    // It goes on after all of this.
    NetRequest received = process.net.Receive(receive, data, 8, 1);
    NetRequest sent = process.net.Send(send, data, 8, 1, registration);
    process.net.Wait(&sent);
    process.net.Wait(&received);
    EXPECT_EQ(plugin.dereg_mr(send, registration), ncclSuccess);
    EXPECT_EQ(plugin.dereg_mr(nullptr, nullptr), ncclInvalidArgument);
    EXPECT_EQ(plugin.close_send(receive), ncclInvalidUsage);
    EXPECT_EQ(plugin.close_recv(send), ncclInvalidUsage);
    EXPECT_EQ(plugin.close_recv(receive), ncclSuccess);
    EXPECT_EQ(plugin.close_send(send), ncclSuccess);
    EXPECT_EQ(plugin.close_listen(listen), ncclSuccess);
    if (version >= 11) {
      EXPECT_EQ(plugin.finalize(), ncclSuccess);
    }
  }
}

TEST_F(NcclNet, AChangedHandleLeadsNowhere) {
  TestCluster cluster(2);
  Process process;
  NetHandle good;
  void* const listen = process.net.Listen(&good);
  for (size_t place = 0; place < sizeof good.bytes; ++place) {
    if (place >= 4 && place < 8) continue;  // the listener's number, which the process looks up
    if (place >= 120) continue;             // the connecting process's own
    NetHandle changed = good;
    changed.bytes[place] = static_cast<char>(changed.bytes[place] ^ 0x10);
    void* send = nullptr;
    ncclResult_t result = ncclSuccess;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (result == ncclSuccess && std::chrono::steady_clock::now() < until) {
      result = process.plugin.connect(0, &changed, &send);
    }
    EXPECT_NE(result, ncclSuccess) << place;
    EXPECT_EQ(send, nullptr);
  }
  EXPECT_EQ(process.plugin.close_listen(listen), ncclSuccess);
}

TEST_F(NcclNet, WithoutADaemonNcclTakesItsOwnTransports) {
  setenv("HARMONAIZE_SOCKET", "/tmp/there-is-no-such-socket", 1);
  for (const int version : NetPlugin::Versions()) {
    NetPlugin plugin = NetPlugin::Load(version);
    EXPECT_EQ(plugin.init(), ncclSystemError);
    plugin.Unload();
  }
}

TEST_F(NcclNet, UnloadedAndLoadedAgainItGoesOn) {
  TestCluster cluster(1);
  for (int round = 0; round < 3; ++round) {
    for (const int version : NetPlugin::Versions()) {
      Process process(version);
      NetHandle handle;
      void* const listen = process.net.Listen(&handle);
      EXPECT_EQ(process.plugin.close_listen(listen), ncclSuccess);
      if (version >= 11) {
        EXPECT_EQ(process.plugin.finalize(), ncclSuccess);
      }
      process.plugin.Unload();
    }
  }
}

TEST_F(NcclNet, AForkedChildHasConnectionsOfItsOwn) {
  TestCluster cluster(1);
  Process process;
  NetHandle handle;
  void* const listen = process.net.Listen(&handle);
  void* send = nullptr;
  void* receive = nullptr;
  while (send == nullptr || receive == nullptr) {
    if (send == nullptr) {
      ASSERT_EQ(process.plugin.connect(0, &handle, &send), ncclSuccess);
    }
    if (receive == nullptr) {
      ASSERT_EQ(process.plugin.accept(listen, &receive), ncclSuccess);
    }
  }
  const pid_t child = fork();
  if (child == 0) {
    char data = 0;
    void* request = nullptr;
    EXPECT_EQ(process.plugin.isend(send, &data, 1, 1, nullptr, &request), ncclInvalidUsage);
    void* accepted = nullptr;
    EXPECT_EQ(process.plugin.accept(listen, &accepted), ncclInvalidUsage);
    EXPECT_EQ(process.plugin.close_send(send), ncclSuccess);
    EXPECT_EQ(process.plugin.close_recv(receive), ncclSuccess);
    Process own;
    NetHandle other;
    void* const own_listen = own.net.Listen(&other);
    void* own_send = nullptr;
    void* own_receive = nullptr;
    while (own_send == nullptr || own_receive == nullptr) {
      if (own_send == nullptr) {
        EXPECT_EQ(own.plugin.connect(0, &other, &own_send), ncclSuccess);
      }
      if (own_receive == nullptr) {
        EXPECT_EQ(own.plugin.accept(own_listen, &own_receive), ncclSuccess);
      }
      if (HasFailure()) break;
    }
    _exit(HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  // The parent's is as it was.
  char sent_data = 5;
  char received_data = 0;
  NetRequest received = process.net.Receive(receive, &received_data, 1, 1);
  NetRequest sent = process.net.Send(send, &sent_data, 1, 1);
  process.net.Wait(&sent);
  process.net.Wait(&received);
  EXPECT_EQ(received_data, 5);
  EXPECT_EQ(process.plugin.close_send(send), ncclSuccess);
  EXPECT_EQ(process.plugin.close_recv(receive), ncclSuccess);
  EXPECT_EQ(process.plugin.close_listen(listen), ncclSuccess);
}

// Two communicators of NCCL's have a thread each, and connections between the same two processes.
TEST_F(NcclNet, TwoThreadsUseItAtOnce) {
  TestCluster cluster(2);
  constexpr int kThreads = 3;
  constexpr int kMessages = kSanitized ? 50 : 300;
  const auto run = [&](const std::function<void(Process*, int)>& body) {
    Process process;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] { body(&process, thread); });
    }
    for (std::thread& thread : threads) thread.join();
  };
  RunPair(
      &cluster, {0, 1},
      [&] {
        run([&](Process* process, int thread) {
          void* const send = Connect(process, thread);
          for (int i = 0; i < kMessages; ++i) {
            const auto seed = static_cast<uint64_t>(thread * kMessages + i);
            const std::vector<uint8_t> data = NetBytes(seed % 100'000, seed);
            NetRequest request = process->net.Send(send, data.data(), data.size(), thread);
            process->net.Wait(&request);
          }
          EXPECT_EQ(process->plugin.close_send(send), ncclSuccess);
        });
      },
      [&] {
        run([&](Process* process, int thread) {
          void* const receive = Accept(process, thread);
          std::vector<uint8_t> buffer(100'000);
          for (int i = 0; i < kMessages; ++i) {
            const auto seed = static_cast<uint64_t>(thread * kMessages + i);
            NetRequest request =
                process->net.Receive(receive, buffer.data(), buffer.size(), thread);
            process->net.Wait(&request);
            ExpectBytes(NetBytes(seed % 100'000, seed), buffer.data());
          }
          EXPECT_EQ(process->plugin.close_recv(receive), ncclSuccess);
        });
      });
}

// ---------------------------------------------------------------------------------------------
// Strangers

// A stranger that has got hold of a handle is refused by the daemon of the process that listens.
TEST_F(NcclNet, AnotherUsersHandleIsOfNoUse) {
  if (geteuid() != 0) GTEST_SKIP() << "needs to become two users";
  TestCluster cluster(2);
  for (int host = 0; host < cluster.hosts(); ++host) {
    std::filesystem::permissions(cluster.daemon(host).folder(), std::filesystem::perms(0755));
  }
  for (const int host : {0, 1}) {
    const auto at = [&](int where) {
      setenv("HARMONAIZE_SOCKET", cluster.daemon(where).socket_path().c_str(), 1);
    };
    const pid_t alice = StartAs(kAlice, [&] {
      at(0);
      Process process;
      NetHandle handle;
      void* const listen = process.net.Listen(&handle);
      Publish(host, handle);
      while (board_->stage.load() == host) {
        void* receive = nullptr;
        EXPECT_EQ(process.plugin.accept(listen, &receive), ncclSuccess);
        EXPECT_EQ(receive, nullptr);
      }
      EXPECT_EQ(process.plugin.close_listen(listen), ncclSuccess);
      return 0;
    });
    const pid_t bob = StartAs(kBob, [&] {
      at(host);
      Process process;
      NetHandle handle = Await(host);
      void* send = nullptr;
      ncclResult_t result = ncclSuccess;
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (result == ncclSuccess && std::chrono::steady_clock::now() < until) {
        result = process.plugin.connect(0, &handle, &send);
      }
      EXPECT_EQ(result, ncclInvalidUsage);
      EXPECT_NE(NetLog().find("belongs to another user"), std::string::npos) << NetLog();
      return 0;
    });
    EXPECT_EQ(StatusOf(bob), 0);
    ReachStage(host + 1);
    EXPECT_EQ(StatusOf(alice), 0);
  }
}

// ---------------------------------------------------------------------------------------------
// Failures

TEST_F(NcclNet, TheDeathOfTheOtherProcessEndsWhatWaits) {
  TestCluster cluster(2);
  int slot = 0;
  for (const std::vector<int>& hosts : {std::vector{0, 1}, std::vector{0, 0}}) {
    const int own = slot++;
    HostedRanks ranks(&cluster, hosts);
    ranks.Start([&](int rank) {
      Process process;
      std::vector<uint8_t> data(100'000);
      if (rank == 0) {
        void* const send = Connect(&process, own);
        NetRequest request = process.net.Send(send, data.data(), data.size(), 1);
        process.net.Wait(&request);
        pause();
      }
      void* const receive = Accept(&process, own);
      NetRequest request = process.net.Receive(receive, data.data(), data.size(), 1);
      process.net.Wait(&request);
      NetRequest waits = process.net.Receive(receive, data.data(), data.size(), 1);
      ReachStage(2);
      EXPECT_EQ(process.net.AwaitFailure(&waits), ncclRemoteError) << NetLog();
      EXPECT_EQ(process.plugin.close_recv(receive), ncclSuccess);
      return 0;
    });
    AwaitStage(2);
    kill(ranks.process(0), SIGKILL);
    const std::vector<int> statuses = ranks.Wait();
    EXPECT_EQ(statuses[1], 0);
    board_->stage.store(0);
  }
}

/// Sends or receives messages of random sizes until the connection fails, some at a time.
void ExchangeUntilItFails(Process* process, void* comm, bool sends, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<uint8_t>> buffers(8, std::vector<uint8_t>(600'000));
  std::deque<void*> under_way;
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (size_t i = 0;; ++i) {
    ASSERT_LT(std::chrono::steady_clock::now(), until) << "the connection does not fail";
    void* data = buffers[i % buffers.size()].data();
    size_t bytes = sends ? random() % 600'000 : 600'000;
    int tag = static_cast<int>(i % 3);
    void* none = nullptr;
    void* request = nullptr;
    const ncclResult_t posted =
        sends ? process->plugin.isend(comm, data, bytes, tag, nullptr, &request)
              : process->plugin.irecv(comm, 1, &data, &bytes, &tag, &none, &request);
    if (posted != ncclSuccess) return;
    if (request != nullptr) under_way.push_back(request);
    while (under_way.size() >= buffers.size()) {
      int done = 0;
      if (process->plugin.test(under_way.front(), &done, nullptr) != ncclSuccess) return;
      if (done != 0) under_way.pop_front();
      ASSERT_LT(std::chrono::steady_clock::now(), until) << "a message does not end";
    }
  }
}

// One of the two dies, or closes, at any moment. The other hears of it, and the daemons serve on.
TEST_F(NcclNet, RandomDeathsAndClosesEndTheOtherSide) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  TestCluster cluster(2);
  for (int round = 0; round < (kSanitized ? 6 : 24); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const int ends = static_cast<int>(random() % 2);  // the rank that ends
    const bool dies = random() % 2 == 0;
    const auto after = std::chrono::microseconds(random() % 20'000);
    HostedRanks ranks(&cluster, random() % 3 == 0 ? std::vector{0, 0} : std::vector{0, 1});
    ranks.Start([&](int rank) {
      Process process;
      void* const comm = rank == 0 ? Connect(&process, round) : Accept(&process, round);
      const auto close = [&] {
        return rank == 0 ? process.plugin.close_send(comm) : process.plugin.close_recv(comm);
      };
      if (rank != ends) {
        ReachStage(1);
        ExchangeUntilItFails(&process, comm, rank == 0, seed);
        EXPECT_EQ(close(), ncclSuccess);
        return 0;
      }
      std::thread end([&] {
        AwaitStage(1);  // else the other may still be about to connect
        std::this_thread::sleep_for(after);
        if (dies) kill(getpid(), SIGKILL);
        ReachStage(2);
      });
      // The connection is closed by the thread that uses it.
      std::vector<uint8_t> buffer(600'000);
      for (int i = 0; board_->stage.load() < 2; ++i) {
        void* data = buffer.data();
        size_t bytes = buffer.size();
        int tag = i % 3;
        void* none = nullptr;
        void* request = nullptr;
        EXPECT_EQ(rank == 0 ? process.plugin.isend(comm, data, bytes, tag, nullptr, &request)
                            : process.plugin.irecv(comm, 1, &data, &bytes, &tag, &none, &request),
                  ncclSuccess)
            << NetLog();
        int done = 0;
        while (request != nullptr && done == 0 && board_->stage.load() < 2) {
          EXPECT_EQ(process.plugin.test(request, &done, nullptr), ncclSuccess) << NetLog();
        }
      }
      end.join();
      EXPECT_EQ(close(), ncclSuccess);
      return 0;
    });
    const std::vector<int> statuses = ranks.Wait();
    EXPECT_EQ(statuses[static_cast<size_t>(1 - ends)], 0);
    EXPECT_EQ(statuses[static_cast<size_t>(ends)], dies ? SIGKILL : 0);
    board_->stage.store(0);
  }
}

TEST_F(NcclNet, ADaemonThatIsStartedAnewServesNewConnections) {
  for (const int killed : {0, 1}) {
    TestCluster cluster(2);
    HostedRanks ranks(&cluster, {0, 1});
    const int first = 2 * killed;
    ranks.Start([&](int rank) {
      Process process;
      std::vector<uint8_t> data(100'000);
      const auto exchange = [&](void* comm) {
        NetRequest request = rank == 0 ? process.net.Send(comm, data.data(), data.size(), 1)
                                       : process.net.Receive(comm, data.data(), data.size(), 1);
        process.net.Wait(&request);
      };
      void* comm = rank == 0 ? Connect(&process, first) : Accept(&process, first);
      exchange(comm);
      // The receiver waits, and the sender's message has no receive.
      NetRequest waits = rank == 0 ? process.net.Send(comm, data.data(), data.size(), 2)
                                   : process.net.Receive(comm, data.data(), data.size(), 3);
      board_->stage.fetch_add(1);
      EXPECT_NE(process.net.AwaitFailure(&waits), ncclSuccess);
      EXPECT_EQ(rank == 0 ? process.plugin.close_send(comm) : process.plugin.close_recv(comm),
                ncclSuccess);
      board_->stage.fetch_add(1);
      AwaitStage(5);
      if (rank == killed) setenv("HARMONAIZE_SOCKET", board_->socket, 1);
      comm = rank == 0 ? Connect(&process, first + 1) : Accept(&process, first + 1);
      exchange(comm);
      EXPECT_EQ(rank == 0 ? process.plugin.close_send(comm) : process.plugin.close_recv(comm),
                ncclSuccess);
      return 0;
    });
    AwaitStage(2);
    cluster.daemon(killed).Kill();
    AwaitStage(4);
    cluster.Restart(killed);
    cluster.daemon(killed).socket_path().copy(board_->socket, sizeof board_->socket - 1);
    ReachStage(5);
    for (const int status : ranks.Wait()) EXPECT_EQ(status, 0);
    board_->stage.store(0);
  }
}

}  // namespace
}  // namespace harmonaize::testing
