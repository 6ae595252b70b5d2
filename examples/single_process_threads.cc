/// All ranks in one process, a thread for each: `single_process_threads [ranks]`.
#include <atomic>
#include <thread>
#include <vector>

#include "example.h"

namespace {

constexpr size_t kCount = 100003;

size_t RunRank(int rank, int ranks, ncclUniqueId id) {
  ncclComm_t comm = nullptr;
  CHECK_NCCL(ncclCommInitRank(&comm, ranks, id, rank));
  std::vector<float> buffer(kCount, static_cast<float>(rank + 1));
  CHECK_NCCL(
      ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclFloat, ncclSum, comm, nullptr));
  CHECK_NCCL(ncclCommDestroy(comm));
  return CountWrong(buffer.data(), kCount, static_cast<float>(ranks * (ranks + 1) / 2), rank);
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 4;
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));  // The threads share memory: no exchange is needed.
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      if (Finish(rank, RunRank(rank, ranks, id)) != EXIT_SUCCESS) ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
