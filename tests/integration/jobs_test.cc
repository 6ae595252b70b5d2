// Which processes the daemon takes for one gang, and which communicators for one job.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "src/base/json_text.h"
#include "tests/support/cluster.h"
#include "tests/support/daemon_process.h"
#include "tests/support/hosts_case.h"
#include "tests/support/rank_runner.h"
#include "tests/support/shared_by_processes.h"

namespace harmonaize::testing {
namespace {

/// Where processes wait for each other. Made before they fork.
class Steps {
 public:
  explicit Steps(int processes) : processes_(processes) {}

  /// Until all have reached it, for a minute.
  bool Reach(size_t step) {
    ++reached_->at(step);
    for (int i = 0; i < 6000 && reached_->at(step) < processes_; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return reached_->at(step) == processes_;
  }

 private:
  using Reached = std::array<std::atomic<int>, 3>;
  const int processes_;
  SharedByProcesses<Reached> reached_;
};

/// Of all tenants' processes, or communicators.
std::set<int> GangsOf(const DaemonProcess& daemon, const char* what) {
  const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
  EXPECT_TRUE(status.ok()) << status.status().message();
  std::set<int> gangs;
  const auto document = ReadJson(*status);
  for (const auto& tenant : document.at("tenants")) {
    for (const auto& one : tenant.at(what)) gangs.insert(one.at("gang").get<int>());
  }
  return gangs;
}

// Of four processes two and two have communicators, and then all have one.
TEST(Gangs, AreProcessesThatHaveCommunicatorsWithEachOther) {
  const DaemonProcess daemon;
  Steps steps(4);
  const std::vector<int> statuses = RunAsProcesses(4, [&](int rank) {
    ncclComm_t pair;
    ncclComm_t all;
    const std::string name = rank < 2 ? "127.0.0.1:29511" : "127.0.0.1:29512";
    if (JoinNamed(name, 2, rank % 2, &pair) != ncclSuccess || !steps.Reach(0)) return 2;
    for (const char* what : {"processes", "communicators"}) {
      EXPECT_EQ(GangsOf(daemon, what).size(), 2u) << what;
    }
    if (!steps.Reach(1)) return 3;
    if (JoinNamed("127.0.0.1:29513", 4, rank, &all) != ncclSuccess) return 4;
    for (const char* what : {"processes", "communicators"}) {
      EXPECT_EQ(GangsOf(daemon, what).size(), 1u) << what;
    }
    return steps.Reach(2) ? 0 : 5;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

/// Returns the ids of the jobs of all communicators at the daemon, with how many each has.
std::map<std::string, int> JobsAt(const DaemonProcess& daemon) {
  const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
  EXPECT_TRUE(status.ok()) << status.status().message();
  std::map<std::string, int> jobs;
  const auto document = ReadJson(*status);
  for (const auto& tenant : document.at("tenants")) {
    for (const auto& one : tenant.at("communicators")) ++jobs[one.at("job").get<std::string>()];
  }
  return jobs;
}

TEST(Jobs, WithoutANameAreWhatComesFromOneUniqueId) {
  const DaemonProcess daemon;
  Steps steps(2);
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    ncclComm_t first;
    ncclComm_t half;
    ncclComm_t other;
    if (JoinNamed("first", 2, rank, &first) != ncclSuccess) return 2;
    if (ncclCommSplit(first, rank, 0, &half, nullptr) != ncclSuccess) return 3;
    if (JoinNamed("other", 2, rank, &other) != ncclSuccess || !steps.Reach(0)) return 4;
    std::multiset<int> communicators;
    for (const auto& [id, count] : JobsAt(daemon)) {
      EXPECT_EQ(id.size(), 32u);
      communicators.insert(count);
    }
    EXPECT_EQ(communicators, (std::multiset<int>{1, 3}));
    return steps.Reach(1) ? 0 : 5;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(Jobs, OfOneNameAreOneJob) {
  const DaemonProcess daemon;
  Steps steps(2);
  const std::vector<int> statuses = RunAsProcesses(2, [&](int rank) {
    setenv("HARMONAIZE_JOB", "train llama", 1);
    ncclComm_t first;
    ncclComm_t other;
    if (JoinNamed("first", 2, rank, &first) != ncclSuccess) return 2;
    if (JoinNamed("other", 2, rank, &other) != ncclSuccess || !steps.Reach(0)) return 3;
    EXPECT_EQ(JobsAt(daemon).size(), 1u);
    EXPECT_EQ(JobsAt(daemon).begin()->second, 2);
    return steps.Reach(1) ? 0 : 4;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(Jobs, OfOneLauncherAreOneJob) {
  const DaemonProcess daemon;
  Steps steps(4);
  const std::vector<int> statuses = RunAsProcesses(4, [&](int rank) {
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", rank < 2 ? "29500" : "29501", 1);
    ncclComm_t pair;
    ncclComm_t alone;
    if (JoinNamed(rank < 2 ? "low" : "high", 2, rank % 2, &pair) != ncclSuccess) return 2;
    if (JoinNamed("alone" + std::to_string(rank), 1, 0, &alone) != ncclSuccess) return 3;
    if (!steps.Reach(0)) return 4;
    EXPECT_EQ(JobsAt(daemon).size(), 2u);
    return steps.Reach(1) ? 0 : 5;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

TEST(Jobs, HaveOneIdAtAllHosts) {
  TestCluster cluster(3);
  // The home has no ranks of the second communicator.
  HostedRanks ranks(&cluster, {0, 1, 2});
  Steps steps(3);
  ranks.Start([&](int rank) {
    if (rank == 2) setenv("HARMONAIZE_JOB", "mine", 1);
    ncclComm_t all = ranks.Join(rank);
    ncclComm_t some = nullptr;
    EXPECT_NCCL(ncclCommSplit(all, rank == 0 ? NCCL_SPLIT_NOCOLOR : 1, 0, &some, nullptr));
    EXPECT_EQ(some == nullptr ? 2 : CountRanks(some), 2);
    if (!steps.Reach(0)) return 2;
    std::set<std::string> ids;
    for (int host = 0; host < 3; ++host) {
      const std::map<std::string, int> jobs = JobsAt(cluster.daemon(host));
      EXPECT_EQ(jobs.size(), 1u) << host;
      for (const auto& [id, communicators] : jobs) {
        ids.insert(id);
        EXPECT_EQ(communicators, 2) << host << ": the home has both";
      }
    }
    EXPECT_EQ(ids.size(), 1u) << "no rank before rank 2 claims a job";
    if (!steps.Reach(1)) return 3;
    EXPECT_EQ(some == nullptr ? ncclSuccess : ncclCommDestroy(some), ncclSuccess);
    EXPECT_NCCL(ncclCommDestroy(all));
    return 0;
  });
  ExpectAllEndWell(&ranks);
}

}  // namespace
}  // namespace harmonaize::testing
