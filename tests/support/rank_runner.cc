#include "tests/support/rank_runner.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace harmonaize::testing {

void RunAsThreads(int ranks, const std::function<void(int, ncclComm_t)>& body) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t communicator = nullptr;
      ASSERT_NCCL(ncclCommInitRank(&communicator, ranks, id, rank));
      body(rank, communicator);
      EXPECT_NCCL(ncclCommDestroy(communicator));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<int> RunAsProcesses(int ranks, const std::function<int(int)>& body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int status = body(rank);
      _exit(::testing::Test::HasFailure() && status == 0 ? 1 : status);
    }
    children.push_back(child);
  }
  std::vector<int> statuses;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    statuses.push_back(status);
  }
  return statuses;
}

void ExpectServing(size_t elements) {
  RunAsThreads(2, [elements](int, ncclComm_t communicator) {
    std::vector<float> data(elements, 1.0f);
    EXPECT_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum,
                              communicator, nullptr));
    EXPECT_EQ(data.back(), 2.0f);
  });
}

ncclResult_t JoinNamed(const std::string& name, int ranks, int rank, ncclComm_t* communicator) {
  // A bare word stands for a host of that name.
  const std::string id_name = name.find(':') == std::string::npos ? name + ":1" : name;
  setenv("NCCL_COMM_ID", id_name.c_str(), 1);
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) return result;
  return ncclCommInitRank(communicator, ranks, id, rank);
}

}  // namespace harmonaize::testing
