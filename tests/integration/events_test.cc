// Events of jobs: what ranks hear of each other through the C API, on one host and on several.

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "harmonaize.h"
#include "nccl.h"
#include "src/base/json_text.h"
#include "tests/support/cluster.h"
#include "tests/support/daemon_process.h"
#include "tests/support/hosts_case.h"
#include "tests/support/rank_runner.h"
#include "tests/support/shared_by_processes.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

/// Longest wait for an event, in milliseconds; far longer than one takes.
constexpr int kPatienceMs = 20'000;

/// Returns the next event of a subscription as JSON, and its id in `*id`; null if none comes.
json NextEvent(hzSubscription_t subscription, std::string* id = nullptr) {
  hzEvent_t event;
  const ncclResult_t result = hzNextEvent(subscription, kPatienceMs, &event);
  EXPECT_EQ(result, ncclSuccess) << ncclGetLastError(nullptr);
  if (result != ncclSuccess) return nullptr;
  if (id != nullptr) *id = event.id;
  return ReadJson(event.json);
}

/// Has two ranks disagree about an all-reduce, which both are told, as an event too.
void Disagree(int rank, ncclComm_t communicator) {
  std::vector<float> data(8, 1);
  const size_t count = rank == 0 ? 8 : 4;
  EXPECT_EQ(
      ncclAllReduce(data.data(), data.data(), count, ncclFloat, ncclSum, communicator, nullptr),
      ncclInvalidUsage);
}

TEST(Events, ARankThatIsKilledIsHeardOfByAllOthers) {
  const DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(3, [&](int rank) {
    ncclComm_t communicator;
    if (JoinNamed("all", 3, rank, &communicator) != ncclSuccess) return 2;
    hzSubscription_t events;
    if (hzSubscribe(communicator, "rank.*", nullptr, nullptr, nullptr, &events) != ncclSuccess) {
      return 3;
    }
    // All have subscribed when this returns.
    EXPECT_EQ(CountRanks(communicator), 3);
    if (rank == 2) kill(getpid(), SIGKILL);
    const json event = NextEvent(events);
    EXPECT_EQ(event.at("type"), "io.harmonaize.rank.lost");
    EXPECT_EQ(event.at("subject"), "ranks/2");
    EXPECT_EQ(event.at("data").at("ranks"), json::array({2}));
    EXPECT_NCCL(hzUnsubscribe(events));
    return 0;
  });
  EXPECT_EQ(statuses[0], 0);
  EXPECT_EQ(statuses[1], 0);
}

TEST(Events, ACallbackHearsThem) {
  const DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t communicator;
    if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
    std::atomic<int> heard{0};
    const auto callback = [](const hzEvent_t* event, void* context) {
      if (std::string(event->type) == "io.harmonaize.mismatch.detected") {
        ++*static_cast<std::atomic<int>*>(context);
      }
    };
    hzSubscription_t events;
    EXPECT_NCCL(hzSubscribe(communicator, nullptr, nullptr, callback, &heard, &events));
    int descriptor = -1;
    EXPECT_EQ(hzSubscriptionDescriptor(events, &descriptor), ncclInvalidUsage);
    EXPECT_EQ(CountRanks(communicator), 2);
    Disagree(rank, communicator);
    for (int i = 0; i < kPatienceMs && heard == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_NCCL(hzUnsubscribe(events));
    EXPECT_EQ(heard, 1);
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(Events, OneWhoWasAwayGoesOnBehindTheLastThatWasHeard) {
  const DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t communicator;
    if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
    hzSubscription_t events;
    // The other rank may end first, and that is an event too.
    EXPECT_NCCL(hzSubscribe(nullptr, "mismatch.*", "", nullptr, nullptr, &events));
    int descriptor = -1;
    EXPECT_NCCL(hzSubscriptionDescriptor(events, &descriptor));
    std::string first;
    Disagree(rank, communicator);
    pollfd poll_fd{descriptor, POLLIN, 0};
    EXPECT_EQ(poll(&poll_fd, 1, kPatienceMs), 1);
    EXPECT_EQ(NextEvent(events, &first).at("data").at("operation"), "#0");
    EXPECT_NCCL(hzUnsubscribe(events));
    Disagree(rank, communicator);
    Disagree(rank, communicator);
    // Both forms of an id are understood: the stream's, and the event's own.
    for (const std::string& after : {first, first.substr(0, first.find('@'))}) {
      EXPECT_NCCL(
          hzSubscribe(communicator, "mismatch.*", after.c_str(), nullptr, nullptr, &events));
      EXPECT_EQ(NextEvent(events).at("data").at("operation"), "#1");
      EXPECT_EQ(NextEvent(events).at("data").at("operation"), "#2");
      hzEvent_t event;
      EXPECT_EQ(hzNextEvent(events, 50, &event), ncclInProgress);
      EXPECT_NCCL(hzUnsubscribe(events));
    }
    EXPECT_EQ(hzSubscribe(communicator, "rank.lat", nullptr, nullptr, nullptr, &events),
              ncclInvalidArgument);
    EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("rank.late"), std::string::npos)
        << ncclGetLastError(nullptr);
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(Events, AllHostsOfAJobHearTheSame) {
  TestCluster cluster(3);
  HostedRanks ranks(&cluster, {0, 1, 2, 2});
  struct Ids {
    std::array<std::array<char, 80>, 4> by_rank;
  };
  SharedByProcesses<Ids> ids;
  ranks.Start([&](int rank) {
    setenv("HARMONAIZE_JOB", "over three hosts", 1);
    ncclComm_t all = ranks.Join(rank);
    ncclComm_t pair = nullptr;
    // The pair of host 2 is a communicator of that host alone, and its event reaches all hosts.
    EXPECT_NCCL(ncclCommSplit(all, rank < 2 ? NCCL_SPLIT_NOCOLOR : 0, rank, &pair, nullptr));
    hzSubscription_t events;
    EXPECT_NCCL(hzSubscribe(all, "mismatch.*", nullptr, nullptr, nullptr, &events));
    EXPECT_EQ(CountRanks(all), 4);
    if (rank >= 2) Disagree(rank - 2, pair);
    hzEvent_t event;
    EXPECT_NCCL(hzNextEvent(events, kPatienceMs, &event));
    const std::string id = ReadJson(event.json).at("id");
    id.copy(ids->by_rank[static_cast<size_t>(rank)].data(), 79);
    EXPECT_EQ(hzNextEvent(events, 100, &event), ncclInProgress) << "once";
    EXPECT_NCCL(hzUnsubscribe(events));
    if (pair != nullptr) {
      EXPECT_NCCL(ncclCommDestroy(pair));
    }
    EXPECT_NCCL(ncclCommDestroy(all));
    return 0;
  });
  ExpectAllEndWell(&ranks);
  for (size_t rank = 1; rank < 4; ++rank) EXPECT_EQ(ids->by_rank[rank], ids->by_rank[0]) << rank;
  EXPECT_GT(std::string(ids->by_rank[0].data()).size(), 40u);
}

}  // namespace
}  // namespace harmonaize::testing
