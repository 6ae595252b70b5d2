#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "harmonaize.h"
#include "nccl.h"
#include "tests/support/rank_runner.h"

// What tests of private data on host streams, of groups, and of non-blocking communicators share.

namespace harmonaize::testing {

/// Everything goes to the daemon.
inline constexpr const char* kAllByDaemon = "[inline]\nenabled = false\n";

/// Elements that go through windows, and that are staged as a whole.
inline constexpr size_t kSliced = (size_t{6} << 20) / sizeof(uint32_t) + 77;
inline constexpr size_t kWhole = 1000;

inline ncclResult_t SumInPlace(std::vector<uint32_t>* data, ncclComm_t communicator,
                               cudaStream_t stream) {
  return ncclAllReduce(data->data(), data->data(), data->size(), ncclUint32, ncclSum, communicator,
                       stream);
}

inline void ExpectAll(const std::vector<uint32_t>& data, uint32_t value) {
  EXPECT_EQ(std::count(data.begin(), data.end(), value), static_cast<ptrdiff_t>(data.size()))
      << "not all are " << value << ", the first is " << data.front();
}

/// A host stream that is destroyed in time.
class Stream {
 public:
  Stream() { EXPECT_NCCL(hzStreamCreate(&stream_)); }
  ~Stream() { EXPECT_NCCL(hzStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor)

 private:
  cudaStream_t stream_ = nullptr;
};

/// Returns a communicator of the same ranks.
ncclComm_t SplitOff(ncclComm_t communicator, int rank);

/// Runs chains of sums of several communicators, each on a stream of its own, posted in a random
/// order that differs from rank to rank. Failures are gtest's.
void RunChains(int rank, int ranks, ncclComm_t world, uint32_t seed);

/// Returns what a rank sends to another, or to itself.
std::vector<uint32_t> Message(int from, int to, size_t elements);

inline constexpr int kExchangingRanks = 4;
/// Runs a group in which every rank sends to every rank, itself included, each in an order of its
/// own. Some sizes are staged as a whole, and some buffers are registered. Failures are gtest's.
void ExchangeAll(int rank, ncclComm_t communicator, cudaStream_t stream, uint32_t seed);

/// Posts a ring of sends and receives of three ranks on a stream, aborts their communicator after
/// `pause`, and checks that nobody touches their data afterwards. Failures are gtest's.
void AbortPairs(int rank, ncclComm_t world, std::chrono::microseconds pause);

}  // namespace harmonaize::testing
