#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/support/cluster.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {

/// Returns whether the communicator's last error contains this text.
bool Mentions(ncclComm_t communicator, const std::string& text);
#define EXPECT_MENTIONS(communicator, text) \
  EXPECT_TRUE(Mentions(communicator, text)) << ncclGetLastError(communicator)

/// Runs an all-reduce of ones. Returns the number of ranks that took part, or minus the error.
int CountRanks(ncclComm_t communicator);

/// Runs an all-reduce of zeros in place.
ncclResult_t AllReduce(ncclComm_t communicator, size_t count, ncclDataType_t type = ncclFloat,
                       ncclRedOp_t op = ncclSum);

double SecondsSince(std::chrono::steady_clock::time_point start);

void ExpectAllEndWell(HostedRanks* ranks);

constexpr double kFormationTimeoutSeconds = kSanitized ? 3 : 1.5;
/// Time after late_after_seconds within which the report has certainly come.
constexpr std::chrono::milliseconds kLate(kSanitized ? 1200 : 600);

/// Returns the configuration of daemons that give up and report soon.
std::string Impatient();

/// Provides four such daemons for all tests of a program.
class HostsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cluster_ = new TestCluster(4, Impatient()); }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }
  inline static TestCluster* cluster_ = nullptr;
};

}  // namespace harmonaize::testing
