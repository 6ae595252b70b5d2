// A daemon on a host with two memory nodes: hwloc is told so, and the first two processors of this
// machine play one node each.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "src/base/processors.h"
#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

/// By thread name, the processors that each worker of the daemon may run on, as the kernel lists
/// them.
std::map<std::string, std::string> WorkerProcessors(pid_t daemon) {
  std::map<std::string, std::string> processors;
  const std::string tasks = "/proc/" + std::to_string(daemon) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (!name.starts_with("hz-worker-")) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      constexpr const char* kKey = "Cpus_allowed_list:\t";
      if (line.starts_with(kKey)) processors[name] = line.substr(std::string(kKey).size());
    }
  }
  return processors;
}

void ExpectServing() {
  RunAsThreads(2, [](int, ncclComm_t communicator) {
    void* memory = nullptr;
    ASSERT_NCCL(ncclMemAlloc(&memory, 4 << 20));
    auto* const data = static_cast<float*>(memory);
    for (size_t i = 0; i < (1 << 20); ++i) data[i] = 1.0f;
    EXPECT_NCCL(ncclAllReduce(data, data, 1 << 20, ncclFloat, ncclSum, communicator, nullptr));
    EXPECT_EQ(data[(1 << 20) - 1], 2.0f);
    EXPECT_NCCL(ncclMemFree(memory));
  });
}

class WorkerPlacementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<int> usable = UsableProcessors();
    if (usable.size() < 2 || usable[0] != 0 || usable[1] != 1) {
      GTEST_SKIP() << "processors 0 and 1 are needed";
    }
    setenv("HWLOC_SYNTHETIC", "NUMANode:2 Core:1 PU:1", 1);
  }
  void TearDown() override { unsetenv("HWLOC_SYNTHETIC"); }
};

using Places = std::map<std::string, std::string>;

TEST_F(WorkerPlacementTest, SpreadsOverTheNodes) {
  const DaemonProcess daemon("[workers]\ncount = 3\n[inline]\nenabled = false\n");
  const Places expected = {{"hz-worker-0", "0"}, {"hz-worker-1", "1"}, {"hz-worker-2", "0"}};
  EXPECT_EQ(WorkerProcessors(daemon.pid()), expected);
  ExpectServing();
}

TEST_F(WorkerPlacementTest, CanBeTurnedOff) {
  const DaemonProcess daemon("[workers]\ncount = 2\nplacement = \"none\"\n");
  const Places places = WorkerProcessors(daemon.pid());
  EXPECT_EQ(places.size(), 2u);
  for (const auto& [worker, processors] : places) {
    EXPECT_NE(processors, "0") << worker;
    EXPECT_NE(processors, "1") << worker;
  }
  ExpectServing();
}

TEST_F(WorkerPlacementTest, GivesWayToNamedProcessors) {
  const DaemonProcess daemon("[workers]\ncount = 2\ncpus = [1]\n[inline]\nenabled = false\n");
  const Places expected = {{"hz-worker-0", "1"}, {"hz-worker-1", "1"}};
  EXPECT_EQ(WorkerProcessors(daemon.pid()), expected);
  ExpectServing();
}

}  // namespace
}  // namespace harmonaize::testing
