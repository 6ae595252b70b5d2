#include "tests/support/endless_work.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "harmonaize.h"

namespace harmonaize::testing {
namespace {

/// Elements of operations that are staged as a whole, and that go through windows on any hosts.
constexpr size_t kStagedElements = 20'000;
constexpr size_t kWindowedElements = size_t{1} << 20;

/// The first failure of calls of which each is made if the others went well.
#define HZ_NCCL(call) \
  if (const ncclResult_t result = (call); result != ncclSuccess) return result

/// Sums numbers that tell the rank and the operation, and checks the sums.
ncclResult_t SumInto(int* data, size_t count, int operation, int rank, int ranks,
                     ncclComm_t communicator) {
  std::fill_n(data, count, operation + rank);
  HZ_NCCL(ncclAllReduce(data, data, count, ncclInt, ncclSum, communicator, nullptr));
  const int sum = ranks * operation + ranks * (ranks - 1) / 2;
  const bool right = std::all_of(data, data + count, [sum](int one) { return one == sum; });
  return right ? ncclSuccess : ncclInternalError;
}

ncclResult_t SumOnHeap(size_t count, int operation, int rank, int ranks, ncclComm_t communicator) {
  std::vector<int> data(count);
  return SumInto(data.data(), count, operation, rank, ranks, communicator);
}

ncclResult_t SumRegistered(int operation, int rank, int ranks, ncclComm_t communicator) {
  const size_t count = operation % 2 == 0 ? 1'000 : 100'000;
  void* memory = nullptr;
  HZ_NCCL(ncclMemAlloc(&memory, count * sizeof(int)));
  const ncclResult_t summed =
      SumInto(static_cast<int*>(memory), count, operation, rank, ranks, communicator);
  const ncclResult_t freed = ncclMemFree(memory);
  return summed != ncclSuccess ? summed : freed;
}

ncclResult_t PassOn(int operation, int rank, int ranks, ncclComm_t communicator) {
  const size_t count = operation % 4 == 3 ? kWindowedElements / 2 : 100;
  std::vector<int> sent(count, rank);
  std::vector<int> received(count, -1);
  HZ_NCCL(ncclGroupStart());
  const int before = (rank + ranks - 1) % ranks;
  const ncclResult_t send =
      ncclSend(sent.data(), count, ncclInt, (rank + 1) % ranks, communicator, nullptr);
  const ncclResult_t receive =
      ncclRecv(received.data(), count, ncclInt, before, communicator, nullptr);
  HZ_NCCL(ncclGroupEnd());
  HZ_NCCL(send);
  HZ_NCCL(receive);
  return received.front() == before && received.back() == before ? ncclSuccess : ncclInternalError;
}

ncclResult_t SumOnStream(int operation, ncclComm_t communicator) {
  cudaStream_t stream = nullptr;
  HZ_NCCL(hzStreamCreate(&stream));
  std::vector<std::vector<float>> buffers;
  ncclResult_t posted = ncclSuccess;
  for (int i = 0; i < 6 && posted == ncclSuccess; ++i) {
    buffers.emplace_back(i == operation % 6 ? kWindowedElements : size_t{1000}, 1.0f);
    float* const data = buffers.back().data();
    posted =
        ncclAllReduce(data, data, buffers.back().size(), ncclFloat, ncclMax, communicator, stream);
  }
  const ncclResult_t done = hzStreamSynchronize(stream);
  const ncclResult_t destroyed = hzStreamDestroy(stream);
  HZ_NCCL(posted);
  HZ_NCCL(done);
  return destroyed;
}

ncclResult_t DoOneOfEach(int operation, int rank, int ranks, ncclComm_t communicator) {
  const auto all = static_cast<size_t>(ranks);
  const size_t share = operation % 3 == 2 ? 50'000 : 40;
  std::vector<float> whole(share * all, 1.0f);
  std::vector<float> other(share * all);
  std::vector<float> part(share, 1.0f);
  switch (operation % 6) {
    case 0:
      return ncclBroadcast(whole.data(), whole.data(), whole.size(), ncclFloat, operation % ranks,
                           communicator, nullptr);
    case 1:
      return ncclReduce(whole.data(), whole.data(), whole.size(), ncclFloat, ncclSum,
                        operation % ranks, communicator, nullptr);
    case 2:
      return ncclAlltoAll(whole.data(), other.data(), share, ncclFloat, communicator, nullptr);
    case 3:
      return ncclReduceScatter(whole.data(), part.data(), share, ncclFloat, ncclSum, communicator,
                               nullptr);
    case 4:
      return ncclAllGather(part.data(), whole.data(), share, ncclFloat, communicator, nullptr);
    default: break;
  }
  HZ_NCCL(ncclGroupStart());
  const ncclResult_t sum = ncclAllReduce(whole.data(), whole.data(), whole.size(), ncclFloat,
                                         ncclSum, communicator, nullptr);
  const ncclResult_t send =
      ncclSend(part.data(), share, ncclFloat, (rank + 1) % ranks, communicator, nullptr);
  const ncclResult_t receive =
      ncclRecv(other.data(), share, ncclFloat, (rank + ranks - 1) % ranks, communicator, nullptr);
  HZ_NCCL(ncclGroupEnd());
  HZ_NCCL(sum);
  HZ_NCCL(send);
  return receive;
}

ncclResult_t SplitOnce(int operation, int rank, int ranks, ncclComm_t communicator) {
  ncclComm_t part = nullptr;
  const int colors = 1 + operation % 2;
  HZ_NCCL(ncclCommSplit(communicator, rank % colors, rank, &part, nullptr));
  const int rank_in_part = rank / colors;
  const int ranks_of_part = (ranks - rank % colors + colors - 1) / colors;
  const ncclResult_t summed = SumOnHeap(100, operation, rank_in_part, ranks_of_part, part);
  const ncclResult_t ended = summed == ncclSuccess ? ncclCommDestroy(part) : ncclCommAbort(part);
  return summed != ncclSuccess ? summed : ended;
}

ncclResult_t DoOnce(Work work, int operation, int rank, int ranks, ncclComm_t communicator) {
  switch (work) {
    case Work::kSmall:
      return SumOnHeap(static_cast<size_t>(1 + operation % 64), operation, rank, ranks,
                       communicator);
    case Work::kStaged: return SumOnHeap(kStagedElements, operation, rank, ranks, communicator);
    case Work::kWindowed: return SumOnHeap(kWindowedElements, operation, rank, ranks, communicator);
    case Work::kRegistered: return SumRegistered(operation, rank, ranks, communicator);
    case Work::kMessages: return PassOn(operation, rank, ranks, communicator);
    case Work::kStreams: return SumOnStream(operation, communicator);
    case Work::kMixed: return DoOneOfEach(operation, rank, ranks, communicator);
    case Work::kSplits: return SplitOnce(operation, rank, ranks, communicator);
  }
  return ncclInternalError;
}

}  // namespace

ncclResult_t WorkUntilFailure(Work work, int rank, int ranks, ncclComm_t communicator) {
  // The numbers stay small enough for sums of integers.
  for (int operation = 0;; operation = (operation + 1) % 10'000) {
    HZ_NCCL(DoOnce(work, operation, rank, ranks, communicator));
  }
}

ncclResult_t WaitFor(Wait wait, int quiet, int ranks, ncclComm_t communicator) {
  const bool windowed = wait == Wait::kWindowedCollective || wait == Wait::kWindowedMessage;
  std::vector<int> data(windowed ? kWindowedElements : 10);
  ncclComm_t made = nullptr;
  ncclResult_t result = ncclSuccess;
  switch (wait) {
    case Wait::kCollective:
    case Wait::kWindowedCollective:
      return ncclAllReduce(data.data(), data.data(), data.size(), ncclInt, ncclSum, communicator,
                           nullptr);
    case Wait::kMessage:
      return ncclRecv(data.data(), data.size(), ncclInt, quiet, communicator, nullptr);
    case Wait::kWindowedMessage:
      return ncclSend(data.data(), data.size(), ncclInt, quiet, communicator, nullptr);
    case Wait::kStream: return SumOnStream(0, communicator);
    case Wait::kSplit: result = ncclCommSplit(communicator, 0, 0, &made, nullptr); break;
    case Wait::kGrowth:
      result = ncclCommGrow(communicator, ranks + 1, nullptr, -1, &made, nullptr);
      break;
  }
  if (made != nullptr) ncclCommAbort(made);
  return result;
}

}  // namespace harmonaize::testing
