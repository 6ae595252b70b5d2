// What a program sees of the thread that copies private data (Copier). The ranks are processes,
// forked from one that has never had such a thread.

#include <dirent.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "harmonaize.h"
#include "nccl.h"
#include "tests/support/daemon_process.h"
#include "tests/support/private_data.h"
#include "tests/support/rank_runner.h"
#include "tests/support/sanitized.h"

namespace harmonaize::testing {
namespace {

/// Returns the text of a field in /proc/self/task/*/status of the thread with this name.
std::string FieldOfThread(const std::string& name, const std::string& field) {
  std::string found;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* const task = readdir(tasks)) {
    const std::string folder = std::string("/proc/self/task/") + task->d_name;
    std::string own_name;
    std::getline(std::ifstream(folder + "/comm"), own_name);
    if (own_name != name) continue;
    std::ifstream status(folder + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind(field + ":", 0) == 0) found = line.substr(field.size() + 2);
    }
  }
  closedir(tasks);
  return found;
}

std::string FieldOfProcess(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return line.substr(field.size() + 2);
  }
  return "";
}

TEST(CopierThread, TakesNoSignalsAndRunsWhereTheProcessMay) {
  const DaemonProcess daemon(kAllByDaemon);
  const std::vector<int> statuses = RunAsProcesses(1, [](int) {
    const std::string everywhere = FieldOfProcess("Cpus_allowed");
    cpu_set_t bound;
    CPU_ZERO(&bound);
    CPU_SET(sched_getcpu(), &bound);
    EXPECT_EQ(sched_setaffinity(0, sizeof bound, &bound), 0);
    const Stream stream;
    // The thread comes a moment later.
    for (int look = 0; look < 1000 && FieldOfThread("hz-copier", "Cpus_allowed") != everywhere;
         ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(FieldOfThread("hz-copier", "Cpus_allowed"), everywhere);
    // All but those that nobody can block, and those that the C library keeps.
    const uint64_t blocked = std::stoull(FieldOfThread("hz-copier", "SigBlk"), nullptr, 16);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGPROF, SIGUSR1, SIGRTMAX}) {
      EXPECT_NE(blocked >> (signal - 1) & 1, 0u) << signal;
    }
    return 0;
  });
  EXPECT_EQ(statuses.front(), 0);
}

TEST(CopierThread, AForkInTheMiddle) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads in a child of a process with threads";
#endif
  const DaemonProcess daemon(kAllByDaemon);
  const std::vector<int> statuses = RunAsProcesses(2, [](int rank) {
    ncclComm_t communicator = nullptr;
    EXPECT_NCCL(JoinNamed("forks", 2, rank, &communicator));
    const Stream stream;
    for (int round = 0; round < (kSanitized ? 4 : 20); ++round) {
      std::vector<uint32_t> data(4 * kSliced, 1);
      EXPECT_NCCL(SumInPlace(&data, communicator, stream));
      std::this_thread::sleep_for(std::chrono::microseconds(200 * round));
      const pid_t child = fork();
      if (child == 0) {
        // What was the parent's is of no use, and does no harm.
        bool good = hzStreamQuery(stream) == ncclInvalidUsage &&
                    hzStreamSynchronize(stream) == ncclInvalidUsage;
        ncclComm_t alone = nullptr;
        cudaStream_t own = nullptr;
        std::vector<uint32_t> sum(kSliced, 1);
        good = good && ncclCommInitAll(&alone, 1, nullptr) == ncclSuccess &&
               hzStreamCreate(&own) == ncclSuccess && SumInPlace(&sum, alone, own) == ncclSuccess &&
               hzStreamDestroy(own) == ncclSuccess && ncclCommDestroy(alone) == ncclSuccess &&
               sum[kSliced - 1] == 1;
        _exit(good ? 0 : 1);
      }
      EXPECT_NCCL(hzStreamSynchronize(stream));
      ExpectAll(data, 2);
      int status = -1;
      EXPECT_EQ(waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    EXPECT_NCCL(ncclCommDestroy(communicator));
    return 0;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

// The handlers that the program has registered run after the library's own.
TEST(CopierThread, AForkAtTheEndOfTheProcess) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer starts no threads in a child of a process with threads";
#endif
  const DaemonProcess daemon(kAllByDaemon);
  const std::vector<int> statuses = RunAsProcesses(1, [](int) {
    std::atexit([] {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      waitpid(child, nullptr, 0);
    });
    { const Stream stream; }
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
    return 1;
  });
  EXPECT_EQ(statuses.front(), 0);
}

/// Made before, and so destroyed after, everything of the library.
std::vector<uint32_t> data_of_program;

// The data is destroyed while it is being copied.
TEST(CopierThread, AProcessMayExitInTheMiddle) {
  const DaemonProcess daemon(kAllByDaemon);
  const std::vector<int> statuses = RunAsProcesses(2, [](int rank) {
    std::vector<uint32_t>& data = data_of_program;
    data.assign(16 * kSliced, 1);
    ncclComm_t communicator = nullptr;
    EXPECT_NCCL(JoinNamed("exits", 2, rank, &communicator));
    cudaStream_t stream = nullptr;
    EXPECT_NCCL(hzStreamCreate(&stream));
    EXPECT_NCCL(SumInPlace(&data, communicator, stream));
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
    return 1;
  });
  for (const int status : statuses) EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace harmonaize::testing
