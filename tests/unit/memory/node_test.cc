#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "src/memory/memory_node.h"
#include "src/memory/shared_memory.h"

namespace harmonaize {
namespace {

/// The policy that the kernel would apply to a page at `address`; -1 when it does not say.
int PolicyAt(const void* address) {
  int policy = -1;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, address, MPOL_F_ADDR) != 0) return -1;
  return policy;
}

TEST(MemoryNode, ThisThreadIsNearSomeNode) {
  EXPECT_GE(MemoryNodeCount(), 1);
  EXPECT_GE(NodeOfCallingThread(), 0);
}

TEST(MemoryNode, PreferenceGoesWithTheMemoryWhoeverMapsIt) {
  Result<SharedMemory> memory = CreateSharedMemory("test", 1 << 20);
  ASSERT_TRUE(memory.ok());
  Result<Mapping> other = MapAndSeal(memory->descriptor.get(), 1 << 20);
  ASSERT_TRUE(other.ok());
  const int node = NodeOfCallingThread();
  const Status preferred = PreferNode(memory->mapping.data(), 1 << 20, node);
  if (!preferred.ok()) GTEST_SKIP() << preferred.message();
  // The other mapping has had no policy of its own: it shows the file's.
  EXPECT_EQ(PolicyAt(other->data()), MPOL_PREFERRED);
  EXPECT_EQ(PolicyAt(other->data() + (1 << 20) - 4096), MPOL_PREFERRED);
  EXPECT_EQ(NodeOfPage(other->data() + 4096), node);
}

TEST(MemoryNode, RefusesNodesThatAreNone) {
  Result<SharedMemory> memory = CreateSharedMemory("test", 4096);
  ASSERT_TRUE(memory.ok());
  for (const int node : {-1, 1023, 1024, 1 << 20}) {
    EXPECT_EQ(PreferNode(memory->mapping.data(), 4096, node).code(), Code::kSystemError) << node;
  }
}

TEST(MemoryNode, PagesThatAreNotMappedAreNowhere) {
  Result<SharedMemory> memory = CreateSharedMemory("test", 4096);
  ASSERT_TRUE(memory.ok());
  std::byte* const gone = memory->mapping.data();
  memory->mapping.Reset();
  EXPECT_EQ(NodeOfPage(gone), -1);
}

}  // namespace
}  // namespace harmonaize
