#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "src/memory/process_memory.h"

namespace harmonaize {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kPages = 16;

// Pages that a forked child has for itself, at an address that the parent knows. The parent's own
// pages at that address keep zeros, so a copy of the wrong process is seen.
class ProcessMemory : public testing::Test {
 protected:
  void SetUp() override {
    void* pages =
        mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    memory_ = static_cast<std::byte*>(pages);
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      for (size_t i = 0; i < kPages * kPage; ++i) memory_[i] = Pattern(i);
      munmap(memory_ + 8 * kPage, kPage);
      mprotect(memory_ + 12 * kPage, kPage, PROT_READ);
      (void)!write(ready[1], "x", 1);
      for (;;) pause();
    }
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }

  void TearDown() override {
    EndChild();
    munmap(memory_, kPages * kPage);
  }

  void EndChild() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = -1;
  }

  static std::byte Pattern(size_t i) { return static_cast<std::byte>(i * 7 + i / 251); }
  uint64_t Address(size_t offset) const { return reinterpret_cast<uint64_t>(memory_) + offset; }

  std::byte* memory_ = nullptr;
  pid_t child_ = -1;
};

TEST_F(ProcessMemory, ReadsAndWrites) {
  const size_t bytes = 5 * kPage + 13;
  std::vector<std::byte> copy(bytes);
  ASSERT_TRUE(ReadProcess(child_, Address(3), copy.data(), bytes).ok());
  for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(copy[i], Pattern(i + 3)) << i;
  for (std::byte& b : copy) b = ~b;
  ASSERT_TRUE(WriteProcess(child_, Address(3), copy.data(), bytes).ok());
  std::vector<std::byte> again(bytes + 2);
  ASSERT_TRUE(ReadProcess(child_, Address(2), again.data(), bytes + 2).ok());
  EXPECT_EQ(again.front(), Pattern(2));
  EXPECT_EQ(again.back(), Pattern(bytes + 3));
  EXPECT_EQ(std::memcmp(again.data() + 1, copy.data(), bytes), 0);
  EXPECT_EQ(memory_[3], std::byte{0});
}

TEST_F(ProcessMemory, NothingToCopyIsNoError) {
  EXPECT_TRUE(ReadProcess(child_, 0, nullptr, 0).ok());
  EXPECT_TRUE(WriteProcess(child_, 0, nullptr, 0).ok());
}

TEST_F(ProcessMemory, NamesTheFirstPageThatIsMissing) {
  std::vector<std::byte> copy(kPages * kPage);
  const Status status = ReadProcess(child_, Address(0), copy.data(), kPages * kPage);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find(fmt::format("0x{:x}", Address(8 * kPage))), std::string::npos)
      << status.ToString();
  EXPECT_NE(status.message().find(std::to_string(child_)), std::string::npos);
  // What came before the hole has arrived.
  EXPECT_EQ(copy[8 * kPage - 1], Pattern(8 * kPage - 1));
}

TEST_F(ProcessMemory, DoesNotWriteWhatIsReadOnlyThere) {
  std::vector<std::byte> data(kPage, std::byte{9});
  const Status status = WriteProcess(child_, Address(12 * kPage), data.data(), kPage);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("no writable memory"), std::string::npos) << status.ToString();
  std::byte after;
  ASSERT_TRUE(ReadProcess(child_, Address(12 * kPage), &after, 1).ok());
  EXPECT_EQ(after, Pattern(12 * kPage));
}

TEST_F(ProcessMemory, SaysThatTheProcessHasEnded) {
  const pid_t gone = child_;
  EndChild();
  std::byte byte{};
  const Status status = ReadProcess(gone, Address(0), &byte, 1);
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_NE(status.message().find("has ended"), std::string::npos);
  EXPECT_EQ(WriteProcess(gone, Address(0), &byte, 1).code(), Code::kRemoteError);
}

TEST_F(ProcessMemory, SaysThatTheKernelDoesNotPermitIt) {
  if (geteuid() != 0) GTEST_SKIP() << "needs another user's process";
  // A child that is nobody tries to read this process.
  const pid_t nobody = fork();
  if (nobody == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    std::byte byte{};
    const Status status = ReadProcess(getppid(), Address(0), &byte, 1);
    const bool named = status.message().find("does not permit") != std::string::npos;
    _exit(status.code() == Code::kSystemError && named ? 0 : 1);
  }
  int result = 0;
  ASSERT_EQ(waitpid(nobody, &result, 0), nobody);
  EXPECT_TRUE(WIFEXITED(result));
  EXPECT_EQ(WEXITSTATUS(result), 0);
}

}  // namespace
}  // namespace harmonaize
