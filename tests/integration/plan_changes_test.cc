// PlanTable that change while operations go on: all results are right, and no rank notices.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "src/base/json_text.h"
#include "tests/support/hosts_case.h"
#include "tests/support/random_programme.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

std::string SwitchingEvery(int milliseconds) {
  return "[plans]\nswitch_every_ms = " + std::to_string(milliseconds) + "\n";
}

/// What `harmonaize explain` has of the changes of all communicators that this daemon is the home
/// of.
std::vector<nlohmann::json> ChangesAt(DaemonProcess& home) {
  const Result<std::string> status = FetchDaemonStatus(home.socket_path());
  EXPECT_TRUE(status.ok()) << status.status().message();
  std::vector<nlohmann::json> changes;
  const auto report = ReadJson(*status);
  for (const auto& tenant : report.at("tenants")) {
    for (const auto& communicator : tenant.at("communicators")) {
      const auto id = std::to_string(communicator.at("id").get<uint64_t>());
      const Result<std::string> told = FetchCommunicatorExplanation(home.socket_path(), id);
      EXPECT_TRUE(told.ok()) << told.status().message();
      const auto explained = ReadJson(*told);
      if (!explained.value("home", false)) continue;
      for (const auto& change : explained.at("history")) changes.push_back(change);
    }
  }
  return changes;
}

/// All-reduces and broadcasts of several sizes, over and over.
void RunSteadily(int operations, int rank, int ranks, ncclComm_t world) {
  std::vector<double> data(70000);
  for (int i = 0; i < operations; ++i) {
    const size_t count = i % 7 == 0 ? data.size() : size_t{1} << (i % 12);
    const double mine = rank + i;
    std::fill_n(data.begin(), count, mine);
    const int root = i % ranks;
    const bool reduces = i % 3 != 0;
    if (reduces) {
      ASSERT_NCCL(
          ncclAllReduce(data.data(), data.data(), count, ncclDouble, ncclSum, world, nullptr));
    } else {
      ASSERT_NCCL(ncclBroadcast(data.data(), data.data(), count, ncclDouble, root, world, nullptr));
    }
    const double sum = ranks * (ranks - 1) / 2.0 + static_cast<double>(i) * ranks;
    const double expected = reduces ? sum : root + i;
    ASSERT_EQ(data.front(), expected) << "operation " << i;
    ASSERT_EQ(data[count - 1], expected) << "operation " << i;
    ASSERT_EQ(std::count(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(count), expected),
              static_cast<std::ptrdiff_t>(count));
  }
}

TEST(PlanChanges, ResultsAreRightWhilePlansChangeAllTheTime) {
  TestCluster cluster(4, SwitchingEvery(1));
  RunOnHosts(&cluster, {0, 1, 2, 3, 2}, [&](int rank, ncclComm_t world) {
    RunSteadily(kSanitized ? 100 : 600, rank, 5, world);
    if (rank != 0 || ::testing::Test::HasFailure()) return;
    const std::vector<nlohmann::json> changes = ChangesAt(cluster.daemon(0));
    size_t committed = 0;
    uint64_t last = 0;
    for (const auto& change : changes) {
      if (change.at("outcome") != "committed") continue;
      ++committed;
      // What is proposed later may begin earlier only where the change before had not come yet.
      EXPECT_GT(change.at("from").get<uint64_t>() + 200, last);
      last = change.at("from").get<uint64_t>();
      EXPECT_EQ(change.at("before").size(), change.at("after").size());
    }
    EXPECT_GT(committed, 2u) << changes.size();
  });
}

TEST(PlanChanges, RandomOperationsWhilePlansChange) {
  SCOPED_TRACE("HARMONAIZE_TEST_SEED=" + std::to_string(ProgrammeSeed()));
  const Programme programme = MakeProgramme(
      {.seed = ProgrammeSeed() + 3, .operations = kSanitized ? 40 : 300, .exact = true});
  TestCluster cluster(3, SwitchingEvery(5));
  RunOnHosts(&cluster, {1, 0, 2, 0, 1},
             [&](int rank, ncclComm_t world) { RunProgramme(programme, rank, world); });
}

TEST(PlanChanges, NothingChangesUnlessAskedFor) {
  TestCluster cluster(2);
  RunOnHosts(&cluster, {0, 1}, [&](int rank, ncclComm_t world) {
    RunSteadily(kSanitized ? 40 : 200, rank, 2, world);
    if (rank == 0) {
      EXPECT_EQ(ChangesAt(cluster.daemon(0)).size(), 0u);
    }
  });
}

// A rank that leaves ends the changes, not the rest.
TEST(PlanChanges, RanksThatLeaveMeanwhile) {
  TestCluster cluster(3, SwitchingEvery(1));
  for (int leaver = 0; leaver < 3; ++leaver) {
    RunOnHosts(&cluster, {0, 1, 2}, [&](int rank, ncclComm_t world) {
      RunSteadily(kSanitized ? 30 : 100, rank, 3, world);
      if (rank == leaver) return;
      EXPECT_EQ(AllReduce(world, 100), ncclRemoteError);
      int value = rank;
      const int sender = leaver == 0 ? 1 : 0;
      const int receiver = leaver == 2 ? 1 : 2;
      if (rank == sender) {
        EXPECT_NCCL(ncclSend(&value, 1, ncclInt, receiver, world, nullptr));
      } else {
        EXPECT_NCCL(ncclRecv(&value, 1, ncclInt, sender, world, nullptr));
        EXPECT_EQ(value, sender);
      }
    });
  }
}

}  // namespace
}  // namespace harmonaize::testing
