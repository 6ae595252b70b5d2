// A daemon that was first started on a busy host finds out later what the host costs when it is at
// rest, and one whose costs contradict what operations take doubts them.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "src/base/json_text.h"
#include "src/planner/host_load.h"
#include "tests/support/busy_processes.h"
#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;

// The daemon measures again after 2, 6, 14 and 30 s.
constexpr auto kPatience = std::chrono::seconds(45);

json Explain(const DaemonProcess& daemon, int ranks) {
  const Result<std::string> text = FetchDaemonExplanation(daemon.socket_path(), ranks);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return ReadJson(*text);
}

/// Waits until the daemon's calibration is as sure as wanted. Returns whether it is. Sets
/// `disturbed` if other programs kept the machine busy in that time.
bool WaitUntilSure(const DaemonProcess& daemon, bool* disturbed) {
  LoadMeter meter;
  const auto deadline = steady_clock::now() + kPatience;
  for (int wait = 0; steady_clock::now() < deadline; ++wait) {
    const json calibration = Explain(daemon, 2).at("calibration");
    if (calibration.at("sure") == true) return true;
    // The first measurement was made beside the busy processes of this test.
    if (wait > 2 && calibration.at("load").at("heavy") == true) *disturbed = true;
    if (wait % 4 == 0 && !meter.Look().ok()) ADD_FAILURE() << "no thread to look with";
    if (wait > 0 && meter.load().heavy()) *disturbed = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  return false;
}

/// Has threads that are ranks do blocking all-reduces of 8 bytes. Returns how many went inline.
uint64_t Reduce(const DaemonProcess& daemon, int ranks, int times) {
  uint64_t inline_operations = 0;
  RunAsThreads(ranks, [&](int rank, ncclComm_t communicator) {
    std::vector<float> data(2, 1.0F);
    for (int i = 0; i < times; ++i) {
      ASSERT_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclMax,
                                communicator, nullptr));
    }
    if (rank != 0) return;
    const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
    ASSERT_TRUE(status.ok()) << status.status().message();
    const json document = ReadJson(*status);
    inline_operations = document["tenants"][0]["communicators"][0]["inline_operations"];
  });
  return inline_operations;
}

/// A folder for a daemon's state that outlives the daemon.
class StateFolder {
 public:
  StateFolder() {
    char name[] = "/tmp/harmonaize-state-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~StateFolder() { std::filesystem::remove_all(path_); }

  std::string Config(const std::string& more = "") const {
    return "[state]\npath = \"" + path_ + "\"\n" + more;
  }
  json Read() const {
    std::ifstream file(path_ + "/calibration.json");
    return ReadJson(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  void Write(const json& calibration) const {
    std::ofstream(path_ + "/calibration.json") << JsonText(calibration);
  }

 private:
  std::string path_;
};

TEST(Calibration, OfABusyHostIsMeasuredAgainAtRest) {
  const StateFolder state;
  {
    std::unique_ptr<BusyProcesses> busy = std::make_unique<BusyProcesses>(2);
    const DaemonProcess daemon(state.Config("[calibration]\nagain = true\n"), /*keep_log=*/true);
    const json before = Explain(daemon, 3)["calibration"];
    EXPECT_EQ(before["sure"], false);
    EXPECT_EQ(before["load"]["heavy"], true);
    EXPECT_FALSE(before["doubts"].empty());
    EXPECT_EQ(before["again"]["wanted"], true);
    EXPECT_EQ(state.Read()["sure"], false);
    EXPECT_TRUE(daemon.WaitForLog("unsure: other programs kept the host busy")) << daemon.Log();

    busy.reset();
    bool disturbed = false;
    if (!WaitUntilSure(daemon, &disturbed)) {
      if (disturbed) GTEST_SKIP() << "others keep this machine busy";
      if (kSanitized) GTEST_SKIP() << "no two rounds of what a sanitizer slows down agree";
      FAIL() << JsonText(Explain(daemon, 3).at("calibration"), 2);
    }
    const json after = Explain(daemon, 3);
    EXPECT_EQ(after["calibration"]["again"]["wanted"], false);
    EXPECT_GE(after["calibration"]["rounds_agreed"], 2);
    EXPECT_EQ(state.Read()["sure"], true);
    for (const json& collective : after["collectives"]) {
      if (collective["name"] != "AllReduce") continue;
      EXPECT_GT(collective["heap"]["limit_bytes"], 0);
      EXPECT_GT(collective["registered"]["limit_bytes"], 0);
    }
    // A rank that comes late sends its operation to the daemon; not each time.
    uint64_t inline_operations = 0;
    for (int run = 0; run < 10 && inline_operations == 0; ++run) {
      inline_operations = Reduce(daemon, 3, 100);
    }
    EXPECT_GT(inline_operations, 0u);
  }
  const DaemonProcess again(state.Config());
  EXPECT_EQ(Explain(again, 3)["calibration"]["sure"], true);
}

// Costs of this host as a busy one might have been measured, within what is possible.
TEST(Calibration, IsDoubtedWhereOperationsContradictIt) {
  if (kSanitized) GTEST_SKIP() << "no operation that a sanitizer slows down is ten times too fast";
  const StateFolder state;
  { const DaemonProcess first(state.Config()); }
  json calibration = state.Read();
  ASSERT_TRUE(calibration.is_object());
  calibration["costs"]["round_trip_ns"] = 400e3;
  calibration["costs"]["wake_ns"] = 90e3;
  calibration["sure"] = true;
  calibration["doubts"] = json::array();
  state.Write(calibration);
  const DaemonProcess daemon(state.Config("[inline]\nenabled = false\n"));
  ASSERT_EQ(Explain(daemon, 2)["calibration"]["sure"], true);
  const auto doubts = [&] { return JsonText(Explain(daemon, 2)["calibration"]["doubts"]); };
  const auto deadline = steady_clock::now() + kPatience;
  LoadMeter meter;
  while (doubts() == "[]" && steady_clock::now() < deadline) {
    Reduce(daemon, 2, 10'000);
    ASSERT_TRUE(meter.Look().ok());
  }
  if (doubts() == "[]" && meter.load().heavy()) GTEST_SKIP() << "others keep this machine busy";
  EXPECT_NE(doubts().find("less than a tenth of what was predicted"), std::string::npos);
  // The file is written in the background.
  while (state.Read()["sure"] != false && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(state.Read()["sure"], false);
}

}  // namespace
}  // namespace harmonaize::testing
