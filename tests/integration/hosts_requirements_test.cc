// What tenants say of jobs that run on several hosts: the hosts agree, and plans follow in mid-run.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "harmonaize.h"
#include "tests/support/cluster.h"
#include "tests/support/eventually.h"
#include "tests/support/hosts_case.h"
#include "tests/support/job_views.h"
#include "tests/support/rank_runner.h"
#include "tests/support/shared_by_processes.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;

TEST(RequirementsOfHosts, AStatementAtOneHostHoldsAtAll) {
  TestCluster cluster(3, "[policy]\nmost_priority = 2\n");
  HostedRanks ranks(&cluster, {0, 1, 2, 1});
  ranks.Start([&](int rank) {
    ncclComm_t all = ranks.Join(rank);
    if (rank == 2) {
      EXPECT_NCCL(hzSetRequirements(all, "collectives.priority = 3\nfaults.late_after = '7 s'"));
    }
    EXPECT_TRUE(Eventually(20, [&] { return GrantedTo(all).at("values").size() == 2; })) << rank;
    EXPECT_EQ(GrantedTo(all).at("values").at("collectives.priority"), 2);
    EXPECT_EQ(CountRanks(all), 4);
    // Later, at another host, key by key.
    if (rank == 1) {
      EXPECT_NCCL(hzSetRequirements(all, "faults.late_after = '8 s'"));
    }
    EXPECT_TRUE(Eventually(20, [&] {
      return GrantedTo(all).at("values").at("faults.late_after") == "8 s";
    })) << rank;
    EXPECT_EQ(GrantedTo(all).at("values").at("collectives.priority"), 2);
    EXPECT_EQ(CountRanks(all), 4);
    // A communicator of the same job on fewer hosts has them, too.
    ncclComm_t half = nullptr;
    EXPECT_NCCL(ncclCommSplit(all, rank / 2, rank, &half, nullptr));
    EXPECT_EQ(CountRanks(half), 2);
    EXPECT_EQ(GrantedTo(half).at("values").at("faults.late_after"), "8 s");
    EXPECT_NCCL(ncclCommDestroy(half));
    EXPECT_NCCL(ncclCommDestroy(all));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

// A job grows to a host where nobody has said anything.
TEST(RequirementsOfHosts, AHostThatComesLaterIsTold) {
  TestCluster cluster(3);
  HostedRanks ranks(&cluster, {0, 1, 2});
  ranks.Start([&](int rank) {
    setenv("HARMONAIZE_JOB", "grows", 1);
    ncclComm_t first = nullptr;
    if (rank < 2) {
      const ncclUniqueId id = ranks.ShareId(1, rank == 0);
      EXPECT_NCCL(ncclCommInitRank(&first, 2, id, rank));
      if (rank == 1) {
        EXPECT_NCCL(hzSetRequirements(first, "faults.late_after = '7 s'"));
      }
      EXPECT_EQ(CountRanks(first), 2);
    }
    ncclComm_t all = ranks.Join(rank);
    EXPECT_EQ(CountRanks(all), 3);
    EXPECT_TRUE(Eventually(20, [&] { return GrantedTo(all).at("values").size() == 1; })) << rank;
    EXPECT_EQ(CountRanks(all), 3);
    if (first != nullptr) {
      EXPECT_NCCL(ncclCommDestroy(first));
    }
    EXPECT_NCCL(ncclCommDestroy(all));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

// Each rank says something else at the same time, again and again.
TEST(RequirementsOfHosts, StatementsThatMeetEndAlikeAtAllHosts) {
  TestCluster cluster(3, "[policy]\nchanges_per_minute = 1000\n");
  HostedRanks ranks(&cluster, {0, 1, 2});
  ranks.Start([&](int rank) {
    ncclComm_t all = ranks.Join(rank);
    for (int turn = 0; turn < 20; ++turn) {
      const std::string text = "faults.late_after = '" + std::to_string(10 + 20 * rank + turn) +
                               " s'\n[[collectives.override]]\ncommunicator = '" +
                               std::to_string(rank) + "'\n";
      EXPECT_NCCL(hzSetRequirements(all, text.c_str()));
      EXPECT_EQ(CountRanks(all), 3);
    }
    // The ranks compare what they are granted, as a number.
    EXPECT_TRUE(Eventually(20, [&] {
      const std::string text = GrantedTo(all).at("text");
      float own[2] = {static_cast<float>(std::hash<std::string>()(text) % 65536), 0};
      own[1] = -own[0];
      EXPECT_NCCL(ncclAllReduce(own, own, 2, ncclFloat, ncclMax, all, nullptr));
      return own[0] == -own[1];
    }));
    EXPECT_NCCL(ncclCommDestroy(all));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

// While a job sums up, a rank says which algorithm is to be used, and the plans change.
TEST(RequirementsOfHosts, AlgorithmsChangeInMidRun) {
  TestCluster cluster(3);
  RunOnHosts(&cluster, {0, 1, 2}, [&](int rank, ncclComm_t all) {
    for (const std::string algorithm : {"star", "ring", "circulant"}) {
      if (rank == 1) {
        const std::string text = "collectives.algorithms.allow = '" + algorithm + "'";
        EXPECT_NCCL(hzSetRequirements(all, text.c_str()));
      }
      const auto sums_up = [&] {
        for (int i = 0; i < 20; ++i) EXPECT_EQ(CountRanks(all), 3);
        // All leave the loop together.
        float follows = rank == 0 && PlansAt(cluster.daemon(0), "AllReduce", "algorithm") ==
                                         std::set<std::string>{algorithm};
        EXPECT_NCCL(ncclAllReduce(&follows, &follows, 1, ncclFloat, ncclMax, all, nullptr));
        return follows == 1;
      };
      EXPECT_TRUE(Eventually(20, sums_up)) << algorithm;
    }
    // Where none of them carries a collective out, it is planned all the same.
    std::vector<float> data(6, 1);
    EXPECT_NCCL(hzSetRequirements(all, "collectives.algorithms.allow = 'direct-gather'"));
    EXPECT_NCCL(ncclAllGather(data.data(), data.data() + 3, 1, ncclFloat, all, nullptr));
    EXPECT_EQ(CountRanks(all), 3);
  });
}

TEST(RequirementsOfHosts, AnOverrideConcernsItsOwnSizesAlone) {
  TestCluster cluster(2);
  RunOnHosts(&cluster, {0, 1}, [&](int rank, ncclComm_t all) {
    const char* const text =
        "[[collectives.override]]\ncollective = 'AllReduce'\nsizes = ['1 MiB', '1 GiB']\n"
        "algorithms.allow = 'star'\n[collectives]\nalgorithms.allow = 'recursive-doubling'\n";
    if (rank == 0) {
      EXPECT_NCCL(hzSetRequirements(all, text));
    }
    EXPECT_EQ(CountRanks(all), 2);
    EXPECT_NCCL(AllReduce(all, 1 << 20));
    const auto follows = [&] {
      EXPECT_EQ(CountRanks(all), 2);
      EXPECT_NCCL(AllReduce(all, 1 << 20));
      float is_so = 0;
      if (rank == 0) {
        const std::set<std::string> plans = PlansAt(cluster.daemon(0), "AllReduce", "algorithm");
        is_so = plans.size() == 2 && plans.contains("star");
      }
      EXPECT_NCCL(ncclAllReduce(&is_so, &is_so, 1, ncclFloat, ncclMax, all, nullptr));
      return is_so == 1;
    };
    EXPECT_TRUE(Eventually(20, follows));
  });
}

TEST(RequirementsOfHosts, CompressionFollowsWhatTheJobAndTheProviderAllow) {
  for (const bool allowed : {true, false}) {
    TestCluster cluster(2, allowed ? "" : "[policy]\ncompression = false\n");
    RunOnHosts(&cluster, {0, 1}, [&](int rank, ncclComm_t all) {
      EXPECT_NCCL(AllReduce(all, 4 << 20));
      if (rank == 1) {
        EXPECT_NCCL(hzSetRequirements(all, "collectives.compression.allow = 'bf16'"));
      }
      const auto compresses = [&] {
        EXPECT_NCCL(AllReduce(all, 4 << 20));
        float is_so = rank == 0 && PlansAt(cluster.daemon(0), "AllReduce", "wire").contains("bf16");
        EXPECT_NCCL(ncclAllReduce(&is_so, &is_so, 1, ncclFloat, ncclMax, all, nullptr));
        return is_so == 1;
      };
      if (allowed) {
        EXPECT_TRUE(Eventually(20, compresses));
      } else {
        EXPECT_TRUE(Eventually(20, [&] { return GrantedTo(all).at("shortfalls").size() == 1; }));
        for (int i = 0; i < 5; ++i) EXPECT_FALSE(compresses());
      }
    });
  }
}

/// The times that ranks of jobs with one cap tell of their sending.
struct CappedSending {
  std::atomic<int> ready{0};
  std::atomic<int64_t> begun_ns{0};  // when all were ready
  std::atomic<int64_t> ended_ns{0};  // when the last one had ended
};

int64_t SteadyNs() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// Two jobs, each with communicators that overrides give caps of their own: neither makes the bound
// of their tenant hold more than once on a link.
TEST(RequirementsOfHosts, TheCapOfATenantHoldsForAllItsJobsAndOverridesTogether) {
  constexpr int kJobs = 2;
  constexpr int kOverrides = 3;
  constexpr int kOperations = 6;
  constexpr size_t kElements = 64 << 10;
  constexpr double kCap = 2e6;
  std::string asked;
  for (int i = 0; i < kOverrides; ++i) {
    asked += "[[collectives.override]]\ncommunicator = 'c" + std::to_string(i) +
             "'\nbandwidth_cap = '" + std::to_string(2000 - i) + " kB/s'\n";
  }
  TestCluster cluster(2, "[policy]\nmost_bandwidth_cap = '2 MB/s'\n");
  SharedByProcesses<CappedSending> sending;
  HostedRanks ranks(&cluster, {0, 1, 0, 1});
  ranks.Start([&](int rank) {
    const int job = rank / 2;
    setenv("HARMONAIZE_JOB", job == 0 ? "one" : "two", 1);
    std::vector<ncclComm_t> communicators(kOverrides);
    for (int i = 0; i < kOverrides; ++i) {
      const ncclUniqueId id = ranks.ShareId(job * kOverrides + i, rank % 2 == 0);
      const std::string name = "c" + std::to_string(i);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.commName = name.c_str();
      EXPECT_NCCL(
          ncclCommInitRankConfig(&communicators[static_cast<size_t>(i)], 2, id, rank % 2, &config));
    }
    ncclComm_t first = communicators[0];
    if (rank % 2 == 0) {
      EXPECT_NCCL(hzSetRequirements(first, asked.c_str()));
    }
    EXPECT_TRUE(Eventually(20, [&] {
      usleep(300'000);  // a tenant may not ask more often
      return GrantedTo(first).at("text").get<std::string>().find("\"c2\"") != std::string::npos;
    }));
    for (ncclComm_t one : communicators) EXPECT_EQ(CountRanks(one), 2);
    if (++sending->ready == ranks.ranks()) sending->begun_ns = SteadyNs();
    while (sending->begun_ns == 0) usleep(1000);
    std::vector<std::thread> threads;
    for (ncclComm_t one : communicators) {
      threads.emplace_back([one] {
        for (int i = 0; i < kOperations; ++i) EXPECT_NCCL(AllReduce(one, kElements));
      });
    }
    for (std::thread& thread : threads) thread.join();
    const int64_t ended_ns = SteadyNs();
    int64_t last_ns = sending->ended_ns;
    while (last_ns < ended_ns && !sending->ended_ns.compare_exchange_weak(last_ns, ended_ns)) {
    }
    for (ncclComm_t one : communicators) EXPECT_NCCL(ncclCommDestroy(one));
    return 0;
  });
  ExpectAllEndWell(&ranks);
  // Each of two hosts sends as much as there is in a buffer.
  constexpr double kSent = double{kJobs * kOverrides * kOperations} * kElements * sizeof(float);
  const double seconds = static_cast<double>(sending->ended_ns - sending->begun_ns) * 1e-9;
  EXPECT_LT(kSent / seconds, 1.5 * kCap);
}

TEST(RequirementsOfHosts, ALostHostsRanksAreShrunkAwayWhereTheJobWantsThat) {
  TestCluster cluster(3);
  HostedRanks ranks(&cluster, {0, 1, 2});
  ranks.Start([&](int rank) {
    ncclComm_t all = ranks.Join(rank);
    EXPECT_NCCL(hzSetRequirements(all, "faults.on_rank_loss = 'shrink'"));
    EXPECT_EQ(CountRanks(all), 3);
    // It ends once the others have their results, which an id tells.
    for (const int other : {0, 1}) ranks.ShareId(1 + other, rank == other);
    if (rank == 2) _exit(0);
    EXPECT_EQ(AllReduce(all, 1000), ncclRemoteError);
    int lost = 2;
    ncclComm_t left = nullptr;
    EXPECT_NCCL(ncclCommShrink(all, &lost, 1, &left, nullptr, NCCL_SHRINK_DEFAULT));
    EXPECT_EQ(CountRanks(left), 2);
    EXPECT_NCCL(ncclCommDestroy(left));
    EXPECT_NCCL(ncclCommDestroy(all));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

}  // namespace
}  // namespace harmonaize::testing
