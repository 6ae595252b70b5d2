#include "tests/support/hosts_case.h"

#include <fmt/format.h>

#include <vector>

namespace harmonaize::testing {

bool Mentions(ncclComm_t communicator, const std::string& text) {
  return std::string(ncclGetLastError(communicator)).find(text) != std::string::npos;
}

int CountRanks(ncclComm_t communicator) {
  int one = 1;
  int sum = 0;
  const ncclResult_t result = ncclAllReduce(&one, &sum, 1, ncclInt, ncclSum, communicator, nullptr);
  return result == ncclSuccess ? sum : -static_cast<int>(result);
}

ncclResult_t AllReduce(ncclComm_t communicator, size_t count, ncclDataType_t type, ncclRedOp_t op) {
  std::vector<double> data(count);
  return ncclAllReduce(data.data(), data.data(), count, type, op, communicator, nullptr);
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void ExpectAllEndWell(HostedRanks* ranks) {
  const std::vector<int> statuses = ranks->Wait();
  for (size_t rank = 0; rank < statuses.size(); ++rank) {
    EXPECT_EQ(statuses[rank], 0) << "rank " << rank;
  }
}

std::string Impatient() {
  return fmt::format("[ranks]\nlate_after_seconds = 0.2\nformation_timeout_seconds = {}\n",
                     kFormationTimeoutSeconds);
}

}  // namespace harmonaize::testing
