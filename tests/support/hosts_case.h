#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/support/cluster.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {

/// Whether the last error told of the communicator has this text in it.
bool Mentions(ncclComm_t communicator, const std::string& text);
#define EXPECT_MENTIONS(communicator, text) \
  EXPECT_TRUE(Mentions(communicator, text)) << ncclGetLastError(communicator)

/// An all-reduce of ones: the number of ranks that took part; else minus the error.
int CountRanks(ncclComm_t communicator);

/// In place, of zeros.
ncclResult_t AllReduce(ncclComm_t communicator, size_t count, ncclDataType_t type = ncclFloat,
                       ncclRedOp_t op = ncclSum);

double SecondsSince(std::chrono::steady_clock::time_point start);

void ExpectAllEndWell(HostedRanks* ranks);

constexpr double kFormationTimeoutSeconds = kSanitized ? 3 : 1.5;
/// Enough after late_after_seconds for the report to have come.
constexpr std::chrono::milliseconds kLate(kSanitized ? 1200 : 600);

/// Configuration of daemons that give up and report soon.
std::string Impatient();

/// Four such daemons for all tests of a program.
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
