// Descriptors whose numbers the program has given to other files.

#include "src/base/own_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

namespace harmonaize {
namespace {

int Memory() {
  return memfd_create("test", MFD_CLOEXEC);
}

bool IsOpen(int fd) {
  return fcntl(fd, F_GETFD) >= 0;
}

TEST(OwnDescriptor, IsClosedWhenItGoes) {
  const int fd = Memory();
  {
    OwnDescriptor owned{FileDescriptor(fd)};
    EXPECT_TRUE(owned.Intact());
    EXPECT_EQ(owned.get(), fd);
    const OwnDescriptor moved = std::move(owned);
    EXPECT_TRUE(moved.Intact());
    EXPECT_FALSE(owned.Intact());  // NOLINT(bugprone-use-after-move)
  }
  EXPECT_FALSE(IsOpen(fd));
}

TEST(OwnDescriptor, KnowsThatItWasClosed) {
  OwnDescriptor owned{FileDescriptor(Memory())};
  close(owned.get());
  EXPECT_FALSE(owned.Intact());
}

TEST(OwnDescriptor, LeavesAnotherFileUnderItsNumberAlone) {
  const int fd = Memory();
  {
    OwnDescriptor owned{FileDescriptor(fd)};
    const int other = Memory();
    ASSERT_EQ(dup2(other, fd), fd);
    close(other);
    EXPECT_FALSE(owned.Intact());
    owned = OwnDescriptor();
  }
  EXPECT_TRUE(IsOpen(fd));
  close(fd);
}

TEST(OwnDescriptor, KnowsAnotherEndOfTheSameConnection) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  const FileIdentity first = FileIdentity::Of(ends[0]);
  EXPECT_TRUE(first.IsOf(ends[0]));
  EXPECT_FALSE(first.IsOf(ends[1]));
  const int copy = dup(ends[0]);
  EXPECT_TRUE(first.IsOf(copy));
  for (const int fd : {ends[0], ends[1], copy}) close(fd);
}

}  // namespace
}  // namespace harmonaize
