// A daemon at rest uses no processor time, and sessions that come and go leave nothing behind.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

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
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own thread works now and then";
  DaemonProcess daemon;
  ConnectMany(4);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const long before = daemon.ProcessorTicks();
  std::this_thread::sleep_for(std::chrono::seconds(3));
  // 300 ticks pass in this time; one may fall to an accounting tick that hits by chance.
  EXPECT_LE(daemon.ProcessorTicks() - before, 1);
}

TEST(Rest, TwoHundredSessionsLeaveNothing) {
  DaemonProcess daemon;
  const int descriptors = daemon.OpenDescriptors();
  ConnectMany(200);
  EXPECT_TRUE(daemon.SettlesTo(descriptors));
  const int mappings = daemon.Mappings();
  const long resident = daemon.ResidentKilobytes();
  for (int again = 0; again < 3; ++again) {
    ConnectMany(200);
    EXPECT_TRUE(daemon.SettlesTo(descriptors));
  }
  if (kSanitized) return;  // they keep freed memory for a while
  // The allocator may split or merge a few of its own.
  EXPECT_LE(daemon.Mappings(), mappings + 20);
  // How many of the 200 are there at once differs from time to time, and with it what the allocator
  // holds: up to 90 KiB for each. 600 that left theirs behind would be more than that.
  EXPECT_LE(daemon.ResidentKilobytes(), resident + 32768);
}

/// The daemon's descriptors once it has let go of those who have just left.
int DescriptorsAtRest(const DaemonProcess& daemon) {
  int seen = daemon.OpenDescriptors();
  for (int same = 0; same < 10; ++same) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const int now = daemon.OpenDescriptors();
    if (now != seen) same = 0;
    seen = now;
  }
  return seen;
}

// Out of descriptors the daemon turns tenants away, neither hangs nor spins, and serves again
// later.
TEST(Rest, TurnsTenantsAwayWithoutDescriptors) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs descriptors of its own for its checks";
  DaemonProcess daemon;
  rlimit limit{};
  ASSERT_EQ(prlimit(daemon.pid(), RLIMIT_NOFILE, nullptr, &limit), 0);
  limit.rlim_cur = static_cast<rlim_t>(DescriptorsAtRest(daemon));
  rlimit before{};
  ASSERT_EQ(prlimit(daemon.pid(), RLIMIT_NOFILE, &limit, &before), 0);
  const std::vector<int> turned_away = RunAsProcesses(3, [](int number) {
    if (JoinAloneAndReduce(number) != 2) return 1;
    // Turned away at the door, or let in and then found that nothing is left for it.
    const std::string error = ncclGetLastError(nullptr);
    const bool told = error.find("out of file descriptors") != std::string::npos ||
                      error.find("Too many open files") != std::string::npos;
    EXPECT_TRUE(told) << error;
    return told ? 0 : 3;
  });
  for (const int status : turned_away) EXPECT_EQ(status, 0);
  const long ticks = daemon.ProcessorTicks();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LE(daemon.ProcessorTicks() - ticks, 10);
  ASSERT_EQ(prlimit(daemon.pid(), RLIMIT_NOFILE, &before, nullptr), 0);
  ConnectMany(3);
}

// 1024 descriptors, the limit of a login shell, carry 200 tenants that all come at once.
TEST(Rest, NeedsFewDescriptorsForATenant) {
  DaemonProcess daemon;
  rlimit limit{1024, 1024};
  ASSERT_EQ(prlimit(daemon.pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
  ConnectMany(200);
}

}  // namespace
}  // namespace harmonaize::testing
