// Programs that close descriptors which they did not open, as closefrom(3) does in those that go
// into the background, and that give the numbers to files of their own.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

/// Enough to take the numbers of all descriptors that the library has in these tests.
constexpr int kTaken = 40;
constexpr const char* kContent = "a stranger's file, of which not a byte may change\n";

/// What a program opens in the place of what it has closed.
enum class Others { kNone, kFiles, kSockets, kEvents };

/// Files of the program's own under the numbers that closefrom(3) has set free.
class OthersFiles {
 public:
  explicit OthersFiles(Others kind) : kind_(kind) {
    for (int i = 0; i < kTaken && kind != Others::kNone; ++i) Open();
  }

  /// Whether all are open, and as they were.
  bool Untouched() const {
    for (const int fd : files_) {
      if (fcntl(fd, F_GETFD) < 0) return false;
      if (kind_ == Others::kFiles && !HoldsContent(fd)) return false;
      // Of one whose counter is 0 there is nothing to be read, nor of a socket to which nothing
      // was sent.
      char byte[8];
      if (kind_ != Others::kFiles && read(fd, byte, sizeof byte) >= 0) return false;
    }
    return true;
  }

 private:
  void Open() {
    if (kind_ == Others::kEvents) files_.push_back(eventfd(0, EFD_NONBLOCK));
    if (kind_ == Others::kFiles) {
      char name[] = "/tmp/harmonaize-others-XXXXXX";
      const int fd = mkstemp(name);
      unlink(name);
      if (write(fd, kContent, std::strlen(kContent)) < 0) std::abort();
      files_.push_back(fd);
    }
    if (kind_ == Others::kSockets) {
      int ends[2];
      if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
      files_.insert(files_.end(), ends, ends + 2);
    }
  }

  static bool HoldsContent(int fd) {
    char text[256];
    const ssize_t bytes = pread(fd, text, sizeof text, 0);
    return bytes >= 0 && std::string(text, static_cast<size_t>(bytes)) == kContent;
  }

  const Others kind_;
  std::vector<int> files_;
};

int Fail(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, ncclGetLastError(nullptr));
  return 1;
}

bool LastErrorHas(const char* part) {
  return std::string(ncclGetLastError(nullptr)).find(part) != std::string::npos;
}

double AllReduceOne(ncclComm_t communicator, void* buffer, size_t count) {
  auto* const values = static_cast<float*>(buffer);
  for (size_t i = 0; i < count; ++i) values[i] = 1;
  const ncclResult_t result =
      ncclAllReduce(buffer, buffer, count, ncclFloat, ncclSum, communicator, nullptr);
  return result == ncclSuccess ? static_cast<double>(values[count - 1]) : -1;
}

constexpr size_t kLarge = 1 << 18;

/// A rank that works, loses its descriptors, cleans up and begins anew.
int CloseAndBeginAnew(int rank, Others kind) {
  ncclComm_t communicator = nullptr;
  if (JoinNamed("before", 2, rank, &communicator) != ncclSuccess) return Fail("join");
  void* registered = nullptr;
  if (ncclMemAlloc(&registered, kLarge * sizeof(float)) != ncclSuccess) return Fail("allocate");
  std::vector<float> heap(kLarge);
  if (AllReduceOne(communicator, registered, kLarge) != 2) return Fail("registered, before");
  if (AllReduceOne(communicator, heap.data(), kLarge) != 2) return Fail("heap, before");

  closefrom(3);
  const OthersFiles others(kind);
  // As late as this the daemon has seen it too.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (AllReduceOne(communicator, heap.data(), kLarge) != -1) return Fail("a large one went on");
  void* freed = nullptr;
  if (ncclMemAlloc(&freed, 8192) != ncclSuccess || ncclMemFree(freed) != ncclSuccess) {
    return Fail("memory of its own");
  }
  if (ncclCommDestroy(communicator) != ncclSuccess) return Fail("destroy");
  if (!others.Untouched()) return Fail("after destroy: a stranger's descriptor was used");

  // Anew, with memory whose descriptor is gone: it is copied now.
  if (JoinNamed("after", 2, rank, &communicator) != ncclSuccess) return Fail("join anew");
  if (!others.Untouched()) return Fail("anew: a stranger's descriptor was used");
  if (AllReduceOne(communicator, registered, kLarge) != 2) return Fail("registered, after");
  if (AllReduceOne(communicator, heap.data(), kLarge) != 2) return Fail("heap, after");
  if (ncclMemFree(registered) != ncclSuccess) return Fail("free");
  if (ncclCommDestroy(communicator) != ncclSuccess) return Fail("destroy the second");
  if (!others.Untouched()) return Fail("at the end: a stranger's descriptor was used");
  return 0;
}

class ClosedDescriptorsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = std::make_unique<DaemonProcess>(); }
  static void TearDownTestSuite() { daemon_.reset(); }
  static inline std::unique_ptr<DaemonProcess> daemon_;
};

TEST_F(ClosedDescriptorsTest, NobodysFilesAreUsedInTheirPlace) {
  for (const Others kind : {Others::kNone, Others::kFiles, Others::kSockets, Others::kEvents}) {
    const std::vector<int> statuses =
        RunAsProcesses(2, [kind](int rank) { return CloseAndBeginAnew(rank, kind); });
    for (const int status : statuses) EXPECT_EQ(status, 0) << "kind " << static_cast<int>(kind);
  }
}

TEST_F(ClosedDescriptorsTest, WhatHappenedIsToldAndOnceInTheLog) {
  const std::string path = ::testing::TempDir() + "closed_descriptors." + std::to_string(getpid());
  const std::vector<int> statuses = RunAsProcesses(1, [&](int) {
    setenv("NCCL_DEBUG", "WARN", 1);
    setenv("NCCL_DEBUG_FILE", path.c_str(), 1);
    for (int i = 0; i < 3; ++i) {
      ncclComm_t communicator = nullptr;
      if (JoinNamed("told", 1, 0, &communicator) != ncclSuccess) return Fail("join");
      ncclUniqueId id;
      closefrom(3);
      if (ncclCommGetUniqueId(communicator, &id) != ncclRemoteError) return Fail("was not told");
      if (!LastErrorHas("this process has closed the library's descriptors")) {
        return Fail("was told something else");
      }
      if (ncclCommDestroy(communicator) != ncclSuccess) return Fail("destroy");
    }
    return 0;
  });
  EXPECT_EQ(statuses[0], 0);
  std::ifstream file(path);
  int told = 0;
  std::string all;
  for (std::string line; std::getline(file, line); all += line + "\n") {
    const bool warns = line.find("WARN this process has closed") != std::string::npos;
    told += warns ? 1 : 0;
    EXPECT_EQ(line.find("lost the daemon"), std::string::npos) << line;
  }
  EXPECT_EQ(told, 1) << all;
  unlink(path.c_str());
}

// A forked child keeps the connection open, so that the daemon sees nothing of it.
TEST_F(ClosedDescriptorsTest, WhoWaitsForTheDaemonIsToldAndNotKeptWaiting) {
  const std::vector<int> statuses = RunAsProcesses(1, [](int) {
    ncclComm_t communicator = nullptr;
    if (JoinNamed("kept-open", 1, 0, &communicator) != ncclSuccess) return Fail("join");
    const pid_t child = fork();
    if (child == 0) {
      while (getppid() > 1) pause();
      _exit(0);
    }
    closefrom(3);
    const OthersFiles others(Others::kEvents);
    // The daemon sleeps by now, and nobody can wake it.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    std::vector<float> heap(kLarge);
    const double sum = AllReduceOne(communicator, heap.data(), kLarge);
    const bool destroyed = ncclCommDestroy(communicator) == ncclSuccess;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (sum != 1 && !LastErrorHas("has closed the library's descriptors")) return Fail("not told");
    if (!destroyed) return Fail("destroy");
    return others.Untouched() ? 0 : Fail("a stranger's descriptor was used");
  });
  EXPECT_EQ(statuses[0], 0);
}

TEST(LostDaemon, ACommunicatorOfADeadDaemonIsDestroyedWithSuccess) {
  DaemonProcess daemon;
  const std::vector<int> statuses = RunAsProcesses(1, [&](int) {
    ncclComm_t comms[3] = {};
    for (ncclComm_t& comm : comms) {
      if (JoinNamed("dead-daemon", 1, 0, &comm) != ncclSuccess) return Fail("join");
    }
    kill(daemon.pid(), SIGKILL);
    const auto start = std::chrono::steady_clock::now();
    // Found out by the first of these calls, or known before.
    if (ncclCommDestroy(comms[0]) != ncclSuccess) return Fail("destroy");
    if (ncclCommAbort(comms[1]) != ncclSuccess) return Fail("abort");
    if (ncclCommDestroy(comms[2]) != ncclSuccess) return Fail("destroy, lost");
    return std::chrono::steady_clock::now() - start < std::chrono::seconds(10) ? 0 : 2;
  });
  EXPECT_EQ(statuses[0], 0);
  daemon.Kill();
  unlink(daemon.socket_path().c_str());
}

}  // namespace
}  // namespace harmonaize::testing
