// A cloud is told to begin with maintenance once all jobs on the host have acknowledged it, and not
// before: a real daemon, real ranks of two jobs, and a server that plays Azure.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/json_text.h"
#include "tests/integration/command_line.h"
#include "tests/support/daemon_process.h"
#include "tests/support/other_users.h"
#include "tests/support/shared_by_processes.h"
#include "tests/unit/daemon/sources/scripted_server.h"

namespace harmonaize::testing {
namespace {

using daemon::ScriptedServer;
using daemon::ServedConnection;
using daemon::ServedRequest;
using nlohmann::json;

/// Azure, which has one event scheduled for these machines.
class Azure {
 public:
  explicit Azure(std::string machines) : machines_(std::move(machines)) {}

  std::string endpoint() const { return server_.endpoint(); }
  std::vector<std::string> approvals() {
    const std::lock_guard lock(mutex_);
    return approvals_;
  }

 private:
  void Serve(const ServedRequest& request, ServedConnection& connection) {
    if (request.method == "POST") {
      const std::lock_guard lock(mutex_);
      approvals_.push_back(request.body);
      connection.Send(daemon::Answer(200, ""));
      return;
    }
    const std::time_t at = began_ + 3600;
    char when[64] = {};
    tm parts{};
    strftime(when, sizeof when, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&at, &parts));
    connection.Send(
        daemon::Answer(200, fmt::format(R"({{"DocumentIncarnation": 1, "Events": [{{"EventId": "E1",
            "EventType": "Reboot", "ResourceType": "VirtualMachine", "Resources": [{}],
            "EventStatus": "Scheduled", "NotBefore": "{}", "Description": "Host update",
            "EventSource": "Platform", "DurationInSeconds": 9}}]}})",
                                        machines_, when)));
  }

  const std::string machines_;
  const std::time_t began_ = std::time(nullptr);
  std::mutex mutex_;
  std::vector<std::string> approvals_;  // guarded by mutex_
  ScriptedServer server_{[this](const ServedRequest& request, ServedConnection& connection) {
    Serve(request, connection);
  }};
};

std::string ConfigFor(const Azure& azure, bool approve) {
  return fmt::format(
      "[[sources]]\nkind = \"azure\"\nendpoint = \"{}\"\nnode = \"vm1\"\ninterval_seconds = 1\n"
      "approve_when_all_agree = {}\napprove_after_seconds = 1\n",
      azure.endpoint(), approve);
}

/// Waits for the event that tells the job `name` of the maintenance, and returns its id.
std::string EventOf(const std::string& name, const std::string& socket) {
  for (int i = 0; i < 400; ++i) {
    const Ended events =
        RunCommand({"events", "--json", "--job", name, "--types", "maintenance.scheduled"}, socket);
    if (events.status == 0 && !events.output.empty()) {
      return ReadJson(events.output.substr(0, events.output.find('\n'))).at("id");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ADD_FAILURE() << "job " << name << " was not told";
  return "";
}

/// Time, in milliseconds, after which an approval would have come: the second for which all have to
/// agree, the second between two looks, and some for the way.
constexpr int kApprovedWithinMs = 3000;

/// A process beside the two jobs.
enum class Bystander : uint8_t {
  kNone,
  kWaitsToForm,  ///< A rank of the same tenant that waits for another one.
  kOtherTenant,  ///< A program of another user's that is connected and has no communicator.
};

/// What the processes of a test tell each other.
struct Steps {
  std::atomic<int> formed{0};
  std::atomic<bool> bystander_is_there{false};
  std::atomic<bool> bystander_leaves{false};
  std::atomic<bool> done{false};
};

void Await(const std::atomic<bool>& flag) {
  while (!flag.load()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

int StandBy(Bystander bystander, Steps& steps) {
  if (bystander == Bystander::kOtherTenant) {
    BecomeUser(kBob);
    ncclUniqueId id;
    const ncclResult_t connected = ncclGetUniqueId(&id);
    steps.bystander_is_there.store(true);
    if (connected != ncclSuccess) return 2;
    Await(steps.bystander_leaves);
    return 0;
  }
  std::thread([&steps] {
    // By then the rank has asked for a communicator that nobody else joins.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    steps.bystander_is_there.store(true);
    Await(steps.bystander_leaves);
    _exit(0);
  }).detach();
  ncclComm_t communicator;
  return JoinNamed("pair", 2, 0, &communicator) == ncclSuccess ? 3 : 4;
}

/// Has two jobs run. Both acknowledge the maintenance if `both`, else one. Expects that Azure gets
/// so many approvals, and none before the bystander has left.
void RunTwoJobs(const std::string& socket, bool both, Azure& azure, size_t approvals,
                Bystander bystander = Bystander::kNone) {
  SharedByProcesses<Steps> steps;
  std::thread operator_thread([&] {
    while (steps->formed.load() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (bystander != Bystander::kNone) Await(steps->bystander_is_there);
    const std::string first = EventOf("first", socket);
    const std::string second = EventOf("second", socket);
    EXPECT_EQ(RunCommand({"events", "--acknowledge", first}, socket).status, 0);
    // One tenant's word is not that of all.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(azure.approvals().size(), 0u);
    if (both) {
      EXPECT_EQ(RunCommand({"events", "--acknowledge", second}, socket).status, 0);
    }
    if (approvals == 0 || bystander != Bystander::kNone) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kApprovedWithinMs));
      EXPECT_EQ(azure.approvals().size(), 0u);
    }
    steps->bystander_leaves.store(true);
    for (int i = 0; i < 200 && azure.approvals().size() < approvals; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    steps->done.store(true);
  });
  const int processes = bystander == Bystander::kNone ? 2 : 3;
  const std::vector<int> statuses = RunAsProcesses(processes, [&](int rank) {
    if (rank == 2) return StandBy(bystander, *steps.operator->());
    const std::string name = rank == 0 ? "first" : "second";
    setenv("HARMONAIZE_JOB", name.c_str(), 1);
    ncclComm_t communicator;
    if (JoinNamed(name, 1, 0, &communicator) != ncclSuccess) return 2;
    ++steps->formed;
    while (!steps->done.load()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  operator_thread.join();
  EXPECT_EQ(statuses, std::vector<int>(static_cast<size_t>(processes), 0));
  EXPECT_EQ(azure.approvals().size(), approvals);
}

TEST(Approval, IsGivenOnceAllJobsHaveAcknowledged) {
  Azure azure(R"("vm1")");
  const DaemonProcess daemon(ConfigFor(azure, true));
  RunTwoJobs(daemon.socket_path(), true, azure, 1);
  EXPECT_EQ(ReadJson(azure.approvals().at(0)).at("StartRequests").at(0).at("EventId"), "E1");
}

TEST(Approval, IsNotGivenWhileAJobHasNotAcknowledged) {
  Azure azure(R"("vm1")");
  const DaemonProcess daemon(ConfigFor(azure, true));
  RunTwoJobs(daemon.socket_path(), false, azure, 0);
}

TEST(Approval, IsNotGivenWhileRanksWaitToFormACommunicator) {
  Azure azure(R"("vm1")");
  const DaemonProcess daemon(ConfigFor(azure, true));
  RunTwoJobs(daemon.socket_path(), true, azure, 1, Bystander::kWaitsToForm);
}

TEST(Approval, IsNotGivenWhileAProgramOfATenantIsConnectedThatWasNotAsked) {
  if (getuid() != 0) GTEST_SKIP() << "two users are needed";
  Azure azure(R"("vm1")");
  const DaemonProcess daemon(ConfigFor(azure, true));
  // The test's folder is its user's alone.
  const auto folder = std::filesystem::path(daemon.socket_path()).parent_path();
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  RunTwoJobs(daemon.socket_path(), true, azure, 1, Bystander::kOtherTenant);
}

TEST(Approval, IsNotGivenWithoutThePolicy) {
  Azure azure(R"("vm1")");
  const DaemonProcess daemon(ConfigFor(azure, false));
  RunTwoJobs(daemon.socket_path(), true, azure, 0);
}

TEST(Approval, IsNotGivenForOtherMachines) {
  Azure azure(R"("vm1", "vm2")");
  const DaemonProcess daemon(ConfigFor(azure, true));
  RunTwoJobs(daemon.socket_path(), true, azure, 0);
}

}  // namespace
}  // namespace harmonaize::testing
