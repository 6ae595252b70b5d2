// Which processes the daemon takes for one job.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "tests/support/daemon_process.h"
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
std::set<int> JobsOf(const DaemonProcess& daemon, const char* what) {
  const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
  EXPECT_TRUE(status.ok()) << status.status().message();
  std::set<int> jobs;
  const auto document = nlohmann::json::parse(*status);
  for (const auto& tenant : document.at("tenants")) {
    for (const auto& one : tenant.at(what)) jobs.insert(one.at("job").get<int>());
  }
  return jobs;
}

// Of four processes two and two have communicators, and then all have one.
TEST(Jobs, AreProcessesThatHaveCommunicatorsWithEachOther) {
  const DaemonProcess daemon;
  Steps steps(4);
  const std::vector<int> statuses = RunAsProcesses(4, [&](int rank) {
    ncclComm_t pair;
    ncclComm_t all;
    const std::string name = rank < 2 ? "127.0.0.1:29511" : "127.0.0.1:29512";
    if (JoinNamed(name, 2, rank % 2, &pair) != ncclSuccess || !steps.Reach(0)) return 2;
    for (const char* what : {"processes", "communicators"}) {
      EXPECT_EQ(JobsOf(daemon, what).size(), 2u) << what;
    }
    if (!steps.Reach(1)) return 3;
    if (JoinNamed("127.0.0.1:29513", 4, rank, &all) != ncclSuccess) return 4;
    for (const char* what : {"processes", "communicators"}) {
      EXPECT_EQ(JobsOf(daemon, what).size(), 1u) << what;
    }
    return steps.Reach(2) ? 0 : 5;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace harmonaize::testing
