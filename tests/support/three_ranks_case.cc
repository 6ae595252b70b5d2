#include "tests/support/three_ranks_case.h"

#include <stdlib.h>
#include <sys/wait.h>

#include "tests/support/hosts_case.h"

namespace harmonaize::testing {

void ThreeRanksTest::SetUpTestSuite() {
  // A daemon that is stopped for a while is not lost.
  cluster_ =
      new TestCluster(3, "[ranks]\nlate_after_seconds = 1\n", "dead_after_seconds = 8\n", "", true);
}

void ThreeRanksTest::TearDownTestSuite() {
  delete cluster_;
  cluster_ = nullptr;
}

bool ThreeRanksTest::OneHost() {
  const std::vector<int>& hosts = GetParam();
  return hosts.front() == hosts.back();
}

void ThreeRanksTest::Start(HostedRanks* ranks,
                           const std::function<void(int rank, ncclComm_t world)>& body,
                           const std::string& job) {
  ranks->Start([ranks, body, job](int rank) {
    if (!job.empty()) setenv("HARMONAIZE_JOB", job.c_str(), 1);
    const ncclComm_t world = ranks->Join(rank);
    EXPECT_EQ(CountRanks(world), 3);
    body(rank, world);
    return 0;
  });
}

void ThreeRanksTest::ExpectStopped(pid_t process) {
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, WUNTRACED), process);
  EXPECT_TRUE(WIFSTOPPED(status));
}

}  // namespace harmonaize::testing
