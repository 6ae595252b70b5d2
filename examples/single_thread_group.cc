/// All ranks in one thread: ncclCommInitAll makes the communicators, and a group carries each
/// operation's calls for all ranks: `single_thread_group [ranks]`.
#include <vector>

#include "example.h"

namespace {

constexpr size_t kCount = 100003;

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 4;
  std::vector<ncclComm_t> comms(static_cast<size_t>(ranks));
  CHECK_NCCL(ncclCommInitAll(comms.data(), ranks, nullptr));
  std::vector<std::vector<float>> buffers;
  for (int rank = 0; rank < ranks; ++rank) {
    buffers.emplace_back(kCount, static_cast<float>(rank + 1));
  }

  CHECK_NCCL(ncclGroupStart());
  for (size_t rank = 0; rank < comms.size(); ++rank) {
    float* buffer = buffers[rank].data();
    CHECK_NCCL(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, comms[rank], nullptr));
  }
  CHECK_NCCL(ncclGroupEnd());

  int status = EXIT_SUCCESS;
  const float expected = static_cast<float>(ranks * (ranks + 1) / 2);
  for (int rank = 0; rank < ranks; ++rank) {
    const float* buffer = buffers[static_cast<size_t>(rank)].data();
    if (Finish(rank, CountWrong(buffer, kCount, expected, rank)) != EXIT_SUCCESS) {
      status = EXIT_FAILURE;
    }
  }
  for (ncclComm_t comm : comms) CHECK_NCCL(ncclCommDestroy(comm));
  return status;
}
