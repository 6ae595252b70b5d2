// A daemon at rest uses no processor time, and sessions that come and go leave nothing behind.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

int JoinAloneAndReduce(int number) {
  ncclComm_t communicator;
  const std::string name = "alone-" + std::to_string(number);
  if (JoinNamed(name, 1, 0, &communicator) != ncclSuccess) return 2;
  std::vector<float> data(10000, 1.0f);
  if (ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, ncclSum, communicator,
                    nullptr) != ncclSuccess) {
    return 3;
  }
  return ncclCommDestroy(communicator) == ncclSuccess ? 0 : 4;
}

void ConnectMany(int sessions) {
  for (const int status : RunAsProcesses(sessions, JoinAloneAndReduce)) EXPECT_EQ(status, 0);
}

TEST(Rest, UsesNoProcessorTime) {
  DaemonProcess daemon;
  ConnectMany(4);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  [[maybe_unused]] const long before = daemon.ProcessorTicks();
  std::this_thread::sleep_for(std::chrono::seconds(3));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // 300 ticks pass in this time; one may fall to an accounting tick that hits by chance. (A
  // sanitizer's own thread works now and then.)
  EXPECT_LE(daemon.ProcessorTicks() - before, 1);
#endif
}

TEST(Rest, TwoHundredSessionsLeaveNothing) {
  DaemonProcess daemon;
  ConnectMany(200);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const int descriptors = daemon.OpenDescriptors();
  [[maybe_unused]] const int mappings = daemon.Mappings();
  [[maybe_unused]] const long resident = daemon.ResidentKilobytes();
  ConnectMany(200);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LE(daemon.OpenDescriptors(), descriptors);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  // The allocator may split or merge a few of its own.
  EXPECT_LE(daemon.Mappings(), mappings + 20);
  // A sanitizer keeps freed memory for a while.
  EXPECT_LE(daemon.ResidentKilobytes(), resident + 4096);
#endif
}

}  // namespace
}  // namespace harmonaize::testing
