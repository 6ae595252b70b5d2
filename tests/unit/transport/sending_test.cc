// In which order large messages go, and how much of them waits in the kernel.

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <span>
#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/transport/queue/bulk_queue.h"
#include "src/transport/queue/send_buffer.h"

namespace harmonaize::transport {
namespace {

class BulkQueueTest : public testing::Test {
 protected:
  Request* Make(uint64_t operation, uint32_t step) {
    return board_.NewRequest(true, 1, {.operation = operation, .step = step}, nullptr, 0, {});
  }
  /// "1.0 2.0 1.0": operation and step of what goes, frame by frame, each of `frames` frames.
  std::string Drain(int frames) {
    std::string text;
    std::vector<int> left(64, frames);
    while (Request* const send = queue_.Pop()) {
      text += std::to_string(send->tag.operation) + "." + std::to_string(send->tag.step) + " ";
      if (--left[send->index] > 0) queue_.Return(send);
    }
    return text;
  }

  MessageBoard board_;
  BulkQueue queue_;
};

TEST_F(BulkQueueTest, MessagesOfOneOperationGoOneAfterTheOther) {
  for (uint32_t step = 0; step < 3; ++step) queue_.Push(Make(1, step));
  EXPECT_EQ(Drain(2), "1.0 1.0 1.1 1.1 1.2 1.2 ");
}

TEST_F(BulkQueueTest, OperationsTakeTurns) {
  queue_.Push(Make(1, 0));
  queue_.Push(Make(1, 1));
  queue_.Push(Make(2, 0));
  EXPECT_EQ(Drain(2), "1.0 2.0 1.0 2.0 1.1 1.1 ");
}

TEST_F(BulkQueueTest, WhoComesLaterWaitsForItsTurn) {
  Request* const first = Make(1, 0);
  queue_.Push(first);
  EXPECT_EQ(queue_.Pop(), first);
  Request* const second = Make(2, 0);
  queue_.Push(second);
  queue_.Return(first);
  EXPECT_EQ(queue_.Pop(), second);
  EXPECT_EQ(queue_.Pop(), first);
  EXPECT_EQ(queue_.Pop(), nullptr);
}

TEST_F(BulkQueueTest, RequestsMayLeave) {
  Request* const gone = Make(1, 0);
  Request* const kept = Make(2, 0);
  queue_.Push(gone);
  queue_.Push(kept);
  gone->Unlink();
  EXPECT_EQ(queue_.Pop(), kept);
  EXPECT_EQ(queue_.Pop(), nullptr);
  queue_.Push(gone);
  EXPECT_EQ(queue_.Pop(), gone);
}

TEST(SendBuffer, HasTwiceWhatIsOnTheWay) {
  // 100 Gbit/s and 50 us.
  EXPECT_EQ(SendBuffer::BytesFor(50, 12'500'000'000), 1'250'000u);
  // A way that is short or slow has room for two frames all the same.
  const size_t least = SendBuffer::BytesFor(1, 1000);
  EXPECT_EQ(SendBuffer::BytesFor(100, 62'500'000), least);
  EXPECT_GE(least, size_t{128} << 10);
  EXPECT_LE(SendBuffer::BytesFor(UINT32_MAX - 1, UINT64_MAX), size_t{64} << 20);
}

// The connection is there, both ends in this thread.
class Connection {
 public:
  Connection() {
    FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage storage{};
    socklen_t length = sizeof(sockaddr_in);
    reinterpret_cast<sockaddr_in*>(&storage)->sin_family = AF_INET;
    auto* const any = reinterpret_cast<sockaddr*>(&storage);
    EXPECT_EQ(::bind(listener.get(), any, length), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    EXPECT_EQ(::getsockname(listener.get(), any, &length), 0);
    from = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(from.get(), any, length), 0);
    to = FileDescriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(to.valid());
  }

  /// As it was sent, until all has come.
  void Move(std::span<const char> bytes) {
    size_t sent = 0;
    size_t came = 0;
    std::vector<char> room(bytes.size());
    while (came < bytes.size()) {
      const ssize_t more =
          ::send(from.get(), bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT);
      if (more > 0) sent += static_cast<size_t>(more);
      const ssize_t got = ::recv(to.get(), room.data(), room.size(), MSG_DONTWAIT);
      if (got > 0) came += static_cast<size_t>(got);
    }
  }

  int BufferBytes() const {
    int bytes = 0;
    socklen_t length = sizeof bytes;
    EXPECT_EQ(::getsockopt(from.get(), SOL_SOCKET, SO_SNDBUF, &bytes, &length), 0);
    return bytes;
  }

  FileDescriptor from;
  FileDescriptor to;
};

TEST(SendBuffer, IsSetOnceTheWayIsKnown) {
  Connection connection;
  const int before = connection.BufferBytes();
  SendBuffer buffer;
  buffer.OnWritten(connection.from.get(), 1);
  EXPECT_EQ(connection.BufferBytes(), before) << "nothing is known yet";
  const std::vector<char> bytes(size_t{4} << 20);
  connection.Move(bytes);
  buffer.OnWritten(connection.from.get(), bytes.size());
  EXPECT_GE(connection.BufferBytes(), static_cast<int>(SendBuffer::BytesFor(0, 0)));
  EXPECT_NE(connection.BufferBytes(), before);
}

}  // namespace
}  // namespace harmonaize::transport
