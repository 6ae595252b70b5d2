// Which operations go inline: what the provider's configuration says is what the ranks do, and what
// the daemon tells of it.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/daemon_document.h"
#include "src/base/json_text.h"
#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

struct Counts {
  uint64_t inline_operations = 0;
  uint64_t inline_bytes = 0;
  uint64_t operations = 0;
};

/// Of the one communicator that the daemon serves.
Counts CountsOf(const DaemonProcess& daemon) {
  const Result<std::string> status = FetchDaemonStatus(daemon.socket_path());
  EXPECT_TRUE(status.ok()) << status.status().message();
  const auto document = ReadJson(*status);
  const auto& communicator = document["tenants"][0]["communicators"][0];
  return {communicator["inline_operations"], communicator["inline_bytes"],
          communicator["operations"]};
}

/// Counts after all-reduces of 1, 1000 and 100000 floats between two ranks.
Counts RunThreeSizes(const std::string& config, bool registered) {
  const DaemonProcess daemon(config);
  Counts counts;
  RunAsThreads(2, [&](int rank, ncclComm_t communicator) {
    constexpr size_t kMost = 100'000;
    std::vector<float> heap(2 * kMost, 1.0F);
    float* buffer = heap.data();
    if (registered) {
      ASSERT_NCCL(ncclMemAlloc(reinterpret_cast<void**>(&buffer), heap.size() * sizeof(float)));
    }
    for (const size_t count : {size_t{1}, size_t{1000}, kMost}) {
      EXPECT_NCCL(
          ncclAllReduce(buffer, buffer + kMost, count, ncclFloat, ncclSum, communicator, nullptr));
    }
    // Nobody still looks for the other when it counts.
    if (rank == 0) counts = CountsOf(daemon);
    if (registered) {
      EXPECT_NCCL(ncclMemFree(buffer));
    }
  });
  return counts;
}

TEST(InlineSteering, GoesByTheConfiguredLimits) {
  for (const bool registered : {false, true}) {
    Counts counts;
    // A rank that comes milliseconds late sends its operation to the daemon, whatever its size:
    // busy machines have such moments, but not each time.
    for (int run = 0; run < 10 && counts.inline_operations != 2; ++run) {
      counts = RunThreeSizes(registered ? "[inline]\nregistered_bytes = 4000\nheap_bytes = 0\n"
                                        : "[inline]\nheap_bytes = 4000\nregistered_bytes = 0\n",
                             registered);
      ASSERT_LE(counts.inline_operations, 2u) << registered;
      ASSERT_EQ(counts.inline_operations + counts.operations, 3u) << registered;
    }
    EXPECT_EQ(counts.inline_operations, 2u) << registered;
    EXPECT_GE(counts.inline_bytes, 4004u);
  }
}

TEST(InlineSteering, NothingGoesInlineWhereThatIsSwitchedOff) {
  const Counts counts = RunThreeSizes("[inline]\nenabled = false\n", false);
  EXPECT_EQ(counts.inline_operations, 0u);
  EXPECT_EQ(counts.inline_bytes, 0u);
  EXPECT_EQ(counts.operations, 3u);
}

TEST(InlineSteering, EverythingGoesSomewhereByCalibration) {
  for (const bool registered : {false, true}) {
    const Counts counts = RunThreeSizes("", registered);
    EXPECT_EQ(counts.inline_operations + counts.operations, 3u) << registered;
  }
}

TEST(InlineSteering, ARankMeetsItselfInline) {
  const DaemonProcess daemon("[inline]\nheap_bytes = 65536\n");
  RunAsThreads(1, [&](int, ncclComm_t communicator) {
    for (const size_t count : {size_t{2}, size_t{500}, size_t{5000}}) {
      std::vector<float> sent(count, 3.0F);
      std::vector<float> received(count);
      ASSERT_NCCL(ncclGroupStart());
      ASSERT_NCCL(ncclSend(sent.data(), count, ncclFloat, 0, communicator, nullptr));
      ASSERT_NCCL(ncclRecv(received.data(), count, ncclFloat, 0, communicator, nullptr));
      ASSERT_NCCL(ncclGroupEnd());
      EXPECT_EQ(received, sent);
    }
    EXPECT_EQ(CountsOf(daemon).inline_operations, 6u);
  });
}

TEST(InlineSteering, KeepsTheCalibrationInTheStateDirectory) {
  const DaemonProcess daemon;
  const std::string path = daemon.folder() + "/state/calibration.json";
  EXPECT_TRUE(std::filesystem::exists(path));
  const Result<std::string> text = FetchDaemonExplanation(daemon.socket_path(), 2);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(ReadJson(*text)["calibration"]["state_path"], daemon.folder() + "/state");
}

}  // namespace
}  // namespace harmonaize::testing
