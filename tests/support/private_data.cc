#include "tests/support/private_data.h"

#include <array>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include "tests/support/sanitized.h"

namespace harmonaize::testing {

ncclComm_t SplitOff(ncclComm_t communicator, int rank) {
  ncclComm_t other = nullptr;
  EXPECT_NCCL(ncclCommSplit(communicator, 0, rank, &other, nullptr));
  return other;
}

void RunChains(int rank, int ranks, ncclComm_t world, uint32_t seed) {
  constexpr int kChains = 3;
  constexpr int kLinks = kSanitized ? 12 : 40;
  constexpr std::array<size_t, 5> kSizes = {1, 300, 40'000, 300'000, kSliced};
  std::mt19937 shared(seed);
  std::mt19937 own(seed * 31 + static_cast<uint32_t>(rank) + 1);
  std::vector<ncclComm_t> communicators;
  std::vector<std::vector<uint32_t>> data;
  std::vector<size_t> order;
  for (int i = 0; i < kChains; ++i) {
    communicators.push_back(SplitOff(world, rank));
    data.emplace_back(kSizes[shared() % kSizes.size()], 1);
    order.insert(order.end(), kLinks, static_cast<size_t>(i));
  }
  std::shuffle(order.begin(), order.end(), own);
  const Stream streams[kChains];
  for (const size_t chain : order) {
    EXPECT_NCCL(SumInPlace(&data[chain], communicators[chain], streams[chain]));
    switch (own() % 16) {
      case 0: EXPECT_NE(hzStreamQuery(streams[own() % kChains]), ncclRemoteError); break;
      case 1: std::this_thread::sleep_for(std::chrono::microseconds(own() % 2000)); break;
      default: break;
    }
  }
  // Destroying a communicator waits for its operations on all streams.
  uint32_t expected = 1;
  for (int i = 0; i < kLinks; ++i) expected *= static_cast<uint32_t>(ranks);
  std::vector<size_t> ends = {0, 1, 2};
  for (const size_t chain : ends) {
    EXPECT_NCCL(own() % 2 == 0 ? hzStreamSynchronize(streams[chain])
                               : ncclCommFinalize(communicators[chain]));
    ExpectAll(data[chain], expected);
    EXPECT_NCCL(ncclCommDestroy(communicators[chain]));
  }
}

std::vector<uint32_t> Message(int from, int to, size_t elements) {
  std::vector<uint32_t> message(elements);
  std::iota(message.begin(), message.end(), static_cast<uint32_t>(from * 100 + to));
  return message;
}

void ExchangeAll(int rank, ncclComm_t communicator, cudaStream_t stream, uint32_t seed) {
  std::mt19937 own(seed * 31 + static_cast<uint32_t>(rank));
  std::vector<std::vector<uint32_t>> sends;
  std::vector<std::vector<uint32_t>> receives;
  void* registered = nullptr;
  ASSERT_NCCL(ncclMemAlloc(&registered, kSliced * sizeof(uint32_t)));
  const auto elements = [seed](int from, int to) {
    return (static_cast<uint32_t>(from * 7 + to) + seed) % 3 == 0 ? kWhole : kSliced;
  };
  std::vector<int> order;
  for (int peer = 0; peer < kExchangingRanks; ++peer) {
    sends.push_back(Message(rank, peer, elements(rank, peer)));
    receives.emplace_back(elements(peer, rank));
    order.insert(order.end(), {peer, kExchangingRanks + peer});
  }
  std::shuffle(order.begin(), order.end(), own);
  const int into_region = static_cast<int>(seed) % kExchangingRanks;
  EXPECT_NCCL(ncclGroupStart());
  for (const int next : order) {
    const int peer = next % kExchangingRanks;
    auto& data = next < kExchangingRanks ? sends[static_cast<size_t>(peer)]
                                         : receives[static_cast<size_t>(peer)];
    if (next < kExchangingRanks) {
      EXPECT_NCCL(ncclSend(data.data(), data.size(), ncclUint32, peer, communicator, stream));
    } else {
      void* const to = peer == into_region ? registered : data.data();
      EXPECT_NCCL(ncclRecv(to, data.size(), ncclUint32, peer, communicator, stream));
    }
  }
  EXPECT_NCCL(ncclGroupEnd());
  if (stream != nullptr) {
    EXPECT_NCCL(hzStreamSynchronize(stream));
  }
  for (int peer = 0; peer < kExchangingRanks; ++peer) {
    std::vector<uint32_t>& got = receives[static_cast<size_t>(peer)];
    if (peer == into_region) {
      std::copy_n(static_cast<const uint32_t*>(registered), got.size(), got.begin());
    }
    const std::vector<uint32_t> expected = Message(peer, rank, got.size());
    const auto wrong = std::mismatch(got.begin(), got.end(), expected.begin()).first;
    EXPECT_EQ(wrong - got.begin(), static_cast<ptrdiff_t>(got.size()))
        << peer << " to " << rank << ": " << got.size() << " elements, then " << got.front();
  }
  EXPECT_NCCL(ncclMemFree(registered));
}

void AbortPairs(int rank, ncclComm_t world, std::chrono::microseconds pause) {
  const ncclComm_t other = SplitOff(world, rank);
  const Stream stream;
  std::vector<uint32_t> data(6 * kSliced, 1);
  // A peer may have aborted before.
  const auto posted = [](ncclResult_t result) {
    EXPECT_TRUE(result == ncclSuccess || result == ncclRemoteError) << result;
  };
  // All ranks have their handles before one of them aborts.
  std::vector<uint32_t> one(1);
  posted(SumInPlace(&one, other, stream));
  posted(hzStreamSynchronize(stream));
  EXPECT_NCCL(ncclGroupStart());
  for (size_t i = 0; i < 3; ++i) {
    const int next = (rank + 1) % 3;
    const int previous = (rank + 2) % 3;
    posted(ncclSend(data.data() + i * kSliced, kSliced, ncclUint32, next, other, stream));
    posted(ncclRecv(data.data() + (3 + i) * kSliced, kSliced, ncclUint32, previous, other, stream));
  }
  posted(ncclGroupEnd());
  std::this_thread::sleep_for(pause);
  EXPECT_NCCL(ncclCommAbort(other));
  std::fill(data.begin(), data.end(), 7);
  posted(hzStreamSynchronize(stream));
  ExpectAll(data, 7);
}

}  // namespace harmonaize::testing
