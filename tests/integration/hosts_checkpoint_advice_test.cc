// Advice about checkpoints to a job of several hosts: what is told at any host counts at all, and
// each host hears of each piece of advice once, also after the daemon that decided is lost.

#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "harmonaize.h"
#include "src/base/json_text.h"
#include "src/ipc/operator_socket.h"
#include "tests/support/cluster.h"
#include "tests/support/daemon_http.h"
#include "tests/support/eventually.h"
#include "tests/support/hosts_case.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

/// Longest wait for something that takes milliseconds, in seconds.
constexpr double kAdviceWait = 20;
/// Time in which a second piece of advice would have come: the daemon looks twice a second.
constexpr std::chrono::milliseconds kSeveralLooks{1500};

constexpr char kAdvisedJob[] = "advised";

Answer AskAt(const std::string& socket, const std::string& method, const std::string& target,
             const json& body = nullptr) {
  return Ask(socket, {.method = method,
                      .target = target,
                      .body = body.is_null() ? std::string() : JsonText(body)});
}

std::string AdvisedPath(const std::string& rest) {
  return std::string("/v1/jobs/") + kAdvisedJob + "/checkpoints" + rest;
}

json AdviceAt(const std::string& socket) {
  const Answer advice = AskAt(socket, "GET", AdvisedPath("/advice"));
  EXPECT_EQ(advice.first, 200) << advice.second;
  return advice.second;
}

/// Tells a daemon of a checkpoint that took half a minute.
void ReportAt(const std::string& socket, int step) {
  const Answer told =
      AskAt(socket, "POST", AdvisedPath("/reports"),
            {{"step", step}, {"where", "storage"}, {"stall_seconds", 1}, {"seconds", 30}});
  EXPECT_EQ(told.first, 200) << told.second;
}

/// Announces maintenance of a daemon's host in an hour.
void AnnounceAt(const std::string& socket) {
  char text[32];
  const time_t then = time(nullptr) + 3600;
  tm parts{};
  gmtime_r(&then, &parts);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  const Answer made = AskAt(OperatorSocketPath(socket), "POST", "/v1/hosts/this/maintenance",
                            {{"not_before", text}});
  EXPECT_EQ(made.first, 200) << made.second;
}

/// Returns the advice with this reason that a host's subscribers have heard, by the ranks at risk.
std::vector<std::string> HeardAt(const std::string& socket, const std::string& why) {
  const Answer page = AskAt(socket, "GET", "/v1/events?types=checkpoint.advised");
  EXPECT_EQ(page.first, 200) << page.second;
  std::vector<std::string> heard;
  for (const json& event : page.second.at("events")) {
    const json& data = event.at("data");
    if (data.at("why") == why) heard.push_back(JsonText(data.value("ranks", json::array())));
  }
  return heard;
}

std::string SocketOf(TestCluster* cluster, int host) {
  return cluster->daemon(host).socket_path();
}

using Ranks = std::vector<std::string>;

/// Waits until a host has heard of so many, and for some time whether it hears of more.
void ExpectHeard(const std::string& socket, const Ranks& ranks) {
  EXPECT_TRUE(Eventually(kAdviceWait,
                         [&] { return HeardAt(socket, "maintenance").size() >= ranks.size(); }));
  std::this_thread::sleep_for(kSeveralLooks);
  EXPECT_EQ(HeardAt(socket, "maintenance"), ranks) << socket;
}

/// Runs `body` in the test's process while a rank at each of three hosts is there. `ready` is
/// called in each rank once all have joined, and returns when the rank is to end.
void WhileJobRuns(TestCluster* cluster, const std::function<void(int rank, ncclComm_t)>& in_rank,
                  const std::function<void()>& body) {
  HostedRanks ranks(cluster, {0, 1, 2});
  ranks.Start([&](int rank) {
    setenv("HARMONAIZE_JOB", kAdvisedJob, 1);
    ncclComm_t all = ranks.Join(rank);
    EXPECT_EQ(CountRanks(all), 3);
    in_rank(rank, all);
    // The test ends the ranks.
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
    return 0;
  });
  for (const int host : {1, 2}) {
    EXPECT_TRUE(Eventually(kAdviceWait, [&] {
      return AskAt(SocketOf(cluster, host), "GET", AdvisedPath("/advice")).first == 200;
    }));
  }
  body();
  for (int rank = 0; rank < 3; ++rank) kill(ranks.process(rank), SIGKILL);
  ranks.Wait();
}

TEST(HostsCheckpointAdvice, WhatIsToldAtOneHostCountsAtAll) {
  TestCluster cluster(3);
  WhileJobRuns(
      &cluster, [](int, ncclComm_t) {},
      [&] {
        // Host 0 is the home, and decides. The report comes at host 2, the notice at host 1.
        ReportAt(SocketOf(&cluster, 2), 100);
        for (int host = 0; host < 3; ++host) {
          const std::string socket = SocketOf(&cluster, host);
          EXPECT_TRUE(Eventually(kAdviceWait, [&] {
            const json last = AdviceAt(socket).at("last");
            return last.is_object() && last.at("step") == 100;
          })) << host;
          EXPECT_EQ(AdviceAt(socket).at("usual").at("from"), "measured");
        }
        AnnounceAt(SocketOf(&cluster, 1));
        for (int host = 0; host < 3; ++host) ExpectHeard(SocketOf(&cluster, host), {"[1]"});
        // A wish at any host is heard at all.
        EXPECT_EQ(AskAt(SocketOf(&cluster, 2), "POST", AdvisedPath(""), json::object()).first, 200);
        for (int host = 0; host < 3; ++host) {
          EXPECT_TRUE(Eventually(kAdviceWait, [&] {
            return HeardAt(SocketOf(&cluster, host), "request").size() == 1;
          })) << host;
        }
      });
}

// The ranks that are left shrink the communicator, and their rank 0 is on host 1 then.
TEST(HostsCheckpointAdvice, GoesOnWhenTheDaemonThatDecidedIsLost) {
  TestCluster cluster(3, "[ranks]\nlate_after_seconds = 60\n", "dead_after_seconds = 2\n");
  WhileJobRuns(
      &cluster,
      [](int rank, ncclComm_t all) {
        while (CountRanks(all) == 3) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (rank == 0) return;
        int lost[] = {0};
        ncclComm_t rest = nullptr;
        EXPECT_NCCL(ncclCommShrink(all, lost, 1, &rest, nullptr, NCCL_SHRINK_ABORT));
        EXPECT_NCCL(ncclCommAbort(all));
        EXPECT_EQ(CountRanks(rest), 2);
      },
      [&] {
        ReportAt(SocketOf(&cluster, 1), 100);
        AnnounceAt(SocketOf(&cluster, 1));
        for (int host = 0; host < 3; ++host) ExpectHeard(SocketOf(&cluster, host), {"[1]"});
        cluster.daemon(0).Kill();
        for (const int host : {1, 2}) {
          EXPECT_TRUE(Eventually(kAdviceWait, [&] {
            const Answer job =
                AskAt(SocketOf(&cluster, host), "GET", std::string("/v1/jobs/") + kAdvisedJob);
            if (job.first != 200) return false;
            for (const json& one : job.second.at("communicators")) {
              if (one.at("size") == 2 && one.at("state") == "ready") return true;
            }
            return false;
          })) << host;
        }
        AnnounceAt(SocketOf(&cluster, 2));
        // The rank of host 2 is number 1 now.
        for (const int host : {1, 2}) ExpectHeard(SocketOf(&cluster, host), {"[1]", "[1]"});
      });
}

}  // namespace
}  // namespace harmonaize::testing
