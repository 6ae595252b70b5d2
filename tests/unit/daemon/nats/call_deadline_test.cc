#include "daemon/nats/call_deadline.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "src/base/file_descriptor.h"

namespace harmonaize::daemon {
namespace {

class CallDeadlineTest : public ::testing::Test {
 protected:
  CallDeadlineTest() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    reader_ = FileDescriptor(ends[0]);
    writer_ = FileDescriptor(ends[1]);
  }
  /// Reads a byte that nobody writes.
  ssize_t ReadForever() const {
    char byte;
    return read(reader_.get(), &byte, 1);
  }

  FileDescriptor reader_;
  FileDescriptor writer_;
};

TEST_F(CallDeadlineTest, ACallThatBlocksIsInterrupted) {
  const CallDeadline deadline(20);
  EXPECT_EQ(ReadForever(), -1);
  EXPECT_EQ(errno, EINTR);
  EXPECT_EQ(ReadForever(), -1) << "the next one, too";
  EXPECT_EQ(errno, EINTR);
}

TEST_F(CallDeadlineTest, AThreadThatBlocksTheSignalIsInterruptedAllTheSame) {
  std::thread([this] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    const CallDeadline deadline(20);
    EXPECT_EQ(ReadForever(), -1);
  }).join();
}

TEST_F(CallDeadlineTest, NothingIsInterruptedBeforeAndAfter) {
  {
    const CallDeadline deadline(600'000);
    ASSERT_EQ(write(writer_.get(), "x", 1), 1);
    EXPECT_EQ(ReadForever(), 1);
  }
  { const CallDeadline deadline(1); }
  std::thread writer([this] {
    usleep(300'000);
    EXPECT_EQ(write(writer_.get(), "x", 1), 1);
  });
  EXPECT_EQ(ReadForever(), 1);
  writer.join();
}

}  // namespace
}  // namespace harmonaize::daemon
