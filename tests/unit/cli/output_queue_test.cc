#include "cli/run/output_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>

#include "src/base/file_descriptor.h"

namespace harmonaize {
namespace {

struct TestPipe {
  TestPipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reader = FileDescriptor(ends[0]);
    writer = FileDescriptor(ends[1]);
  }
  FileDescriptor reader;
  FileDescriptor writer;
};

bool Writable(int fd) {
  pollfd event{fd, POLLOUT, 0};
  return ::poll(&event, 1, 0) > 0;
}

TEST(OutputQueue, NeverBlocksAndLosesNothing) {
  TestPipe pipe;
  OutputQueue queue(pipe.writer.get());
  std::string sent;
  for (int i = 0; i < 100'000; ++i) sent += std::to_string(i) + "\n";
  queue.Append(sent);
  EXPECT_TRUE(queue.Full());
  std::string received;
  while (!queue.Empty()) {
    while (!queue.Empty() && Writable(pipe.writer.get())) queue.Write();
    std::array<char, 65536> buffer{};
    const ssize_t got = ::read(pipe.reader.get(), buffer.data(), buffer.size());
    ASSERT_GT(got, 0);
    received.append(buffer.data(), static_cast<size_t>(got));
  }
  pipe.writer.Reset();
  std::array<char, 65536> buffer{};
  for (ssize_t got; (got = ::read(pipe.reader.get(), buffer.data(), buffer.size())) > 0;) {
    received.append(buffer.data(), static_cast<size_t>(got));
  }
  EXPECT_TRUE(sent == received);
}

TEST(OutputQueue, DropsEverythingOnceTheReaderIsGone) {
  ::signal(SIGPIPE, SIG_IGN);
  TestPipe pipe;
  OutputQueue queue(pipe.writer.get());
  queue.Append("lost");
  pipe.reader.Reset();
  EXPECT_FALSE(queue.Broken());
  queue.Write();
  EXPECT_TRUE(queue.Broken());
  EXPECT_TRUE(queue.Empty());
  queue.Append("more");
  EXPECT_TRUE(queue.Empty());
}

}  // namespace
}  // namespace harmonaize
