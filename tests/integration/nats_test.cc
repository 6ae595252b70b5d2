// Events of real jobs on a real server of NATS.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harmonaize.h"
#include "nccl.h"
#include "src/base/json_text.h"
#include "tests/support/cluster.h"
#include "tests/support/daemon_process.h"
#include "tests/support/hosts_case.h"
#include "tests/support/rank_runner.h"
#include "tests/unit/daemon/nats/nats_server_process.h"

namespace harmonaize::testing {
namespace {

constexpr char kStream[] = "harmonaize_events";

class NatsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string why_not = NatsServerProcess::WhyNot();
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    server_ = std::make_unique<NatsServerProcess>("jetstream: {store_dir: \"FOLDER\"}\n");
  }
  std::string Config() const { return fmt::format("[events]\nnats = [\"{}\"]\n", server_->url()); }

  std::unique_ptr<NatsServerProcess> server_;
};

/// Has two ranks disagree about an all-reduce, which becomes an event.
void Disagree(int rank, ncclComm_t communicator) {
  std::vector<float> data(8, 1);
  EXPECT_EQ(ncclAllReduce(data.data(), data.data(), rank == 0 ? 8 : 4, ncclFloat, ncclSum,
                          communicator, nullptr),
            ncclInvalidUsage);
}

TEST_F(NatsTest, WhatHappensToAJobIsPublished) {
  const DaemonProcess daemon(Config());
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t communicator;
    if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
    for (int i = 0; i < 3; ++i) Disagree(rank, communicator);
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
  NatsClient client(server_->url());
  ASSERT_TRUE(client.WaitForMessages(kStream, 3));
  int mismatches = 0;
  for (const KeptMessage& message : client.Read(kStream)) {
    if (!message.subject.ends_with(".mismatch.detected")) continue;
    EXPECT_TRUE(message.subject.starts_with(fmt::format("harmonaize.events.uid_20{}.", getuid())))
        << message.subject;
    const nlohmann::json event = ReadJson(message.content);
    EXPECT_EQ(event.at("id"), message.id);
    EXPECT_EQ(event.at("data").at("operation"), fmt::format("#{}", mismatches++)) << "in order";
  }
  EXPECT_EQ(mismatches, 3);
}

// A subscriber that is none of a stream's hears also what the stream has taken for a repetition.
TEST_F(NatsTest, OnlyTheHostWhereAnEventBeginsPublishesIt) {
  TestCluster cluster(3, Config());
  HostedRanks ranks(&cluster, {0, 1, 2, 2});
  ranks.Start([&](int rank) {
    ncclComm_t all = ranks.Join(rank);
    ncclComm_t pair = nullptr;
    EXPECT_NCCL(ncclCommSplit(all, rank < 2 ? NCCL_SPLIT_NOCOLOR : 0, rank, &pair, nullptr));
    hzSubscription_t events;
    EXPECT_NCCL(hzSubscribe(all, "mismatch.*", nullptr, nullptr, nullptr, &events));
    EXPECT_EQ(CountRanks(all), 4);
    // The subscription has begun before there is an event: NATS tells it nothing that was before.
    NatsClient client(server_->url());
    natsSubscription* const heard = client.Subscribe("harmonaize.events.*.*.mismatch.detected");
    EXPECT_EQ(CountRanks(all), 4);
    if (rank >= 2) Disagree(rank - 2, pair);
    // All hosts have heard of it.
    hzEvent_t event;
    EXPECT_NCCL(hzNextEvent(events, 20'000, &event));
    EXPECT_EQ(NatsClient::Received(heard, 1000).size(), 1u);
    EXPECT_NCCL(hzUnsubscribe(events));
    if (pair != nullptr) {
      EXPECT_NCCL(ncclCommDestroy(pair));
    }
    EXPECT_NCCL(ncclCommDestroy(all));
    return 0;
  });
  ExpectAllEndWell(&ranks);
  NatsClient client(server_->url());
  EXPECT_TRUE(client.WaitForMessages(kStream, 1));
}

TEST_F(NatsTest, AJobRunsThoughNoServerIsThere) {
  server_->Kill();
  const DaemonProcess daemon(Config(), true);
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t communicator;
    if (JoinNamed("pair", 2, rank, &communicator) != ncclSuccess) return 2;
    Disagree(rank, communicator);
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
  EXPECT_TRUE(daemon.WaitForLog("events are not published to NATS now")) << daemon.Log();
  server_->StartAgain();
  NatsClient client(server_->url());
  EXPECT_TRUE(client.WaitForMessages(kStream, 1)) << daemon.Log();
}

}  // namespace
}  // namespace harmonaize::testing
