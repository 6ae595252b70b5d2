#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "harmonaize.h"
#include "nccl.h"
#include "tests/support/rank_runner.h"

// What tests of private data on host streams share.

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

}  // namespace harmonaize::testing
