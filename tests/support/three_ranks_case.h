#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/cluster.h"
#include "tests/support/eventually.h"

namespace harmonaize::testing {

/// Three ranks, each at the host that the test's parameter names, and three daemons that soon tell
/// of late ones, after a second.
class ThreeRanksTest : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();

  static bool OneHost();
  /// The name of the ranks' second collective. On one host the first one goes inline, and the
  /// daemon does not count it.
  static std::string Second() { return OneHost() ? "AllReduce #0" : "AllReduce #1"; }

  /// Starts the ranks, which join, do a collective, and then `body`. `job` is the name of their
  /// job, if it has one.
  static void Start(HostedRanks* ranks, const std::function<void(int rank, ncclComm_t world)>& body,
                    const std::string& job = "");
  /// Waits in a rank until the test calls Release.
  static void AwaitRelease(HostedRanks& ranks) { ranks.ShareId(1, false); }
  static void Release(HostedRanks& ranks) { ranks.PublishId(1, {}); }
  /// Waits in the test until the rank's process has stopped itself.
  static void ExpectStopped(pid_t process);

  inline static TestCluster* cluster_ = nullptr;
};

#define INSTANTIATE_THREE_RANKS(suite)                                                    \
  INSTANTIATE_TEST_SUITE_P(OneHost, suite, ::testing::Values(std::vector<int>{0, 0, 0})); \
  INSTANTIATE_TEST_SUITE_P(ThreeHosts, suite, ::testing::Values(std::vector<int>{0, 1, 2}))

}  // namespace harmonaize::testing
