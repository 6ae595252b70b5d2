#include "src/memory/memory_node.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <climits>
#include <numeric>

namespace harmonaize {
namespace {

/// Most nodes that any kernel is built for: get_mempolicy fails with fewer bits than it has nodes.
constexpr size_t kMostNodes = 1024;
constexpr size_t kBitsPerWord = CHAR_BIT * sizeof(unsigned long);
using NodeSet = std::array<unsigned long, kMostNodes / kBitsPerWord>;

}  // namespace

int MemoryNodeCount() {
  NodeSet nodes{};
  if (syscall(SYS_get_mempolicy, nullptr, nodes.data(), kMostNodes, nullptr, MPOL_F_MEMS_ALLOWED) !=
      0) {
    return 1;
  }
  const int count = std::accumulate(nodes.begin(), nodes.end(), 0, [](int sum, unsigned long w) {
    return sum + std::popcount(w);
  });
  return count > 0 ? count : 1;
}

int NodeOfCallingThread() {
  unsigned node = 0;
  return syscall(SYS_getcpu, nullptr, &node, nullptr) == 0 ? static_cast<int>(node) : -1;
}

Status PreferNode(void* first, size_t bytes, int node) {
  if (node < 0 || static_cast<size_t>(node) >= kMostNodes) {
    return SystemError("there is no memory node {}", node);
  }
  NodeSet nodes{};
  nodes[static_cast<size_t>(node) / kBitsPerWord] = 1UL
                                                    << (static_cast<size_t>(node) % kBitsPerWord);
  // The kernel reads one bit less than the number passed.
  if (syscall(SYS_mbind, first, bytes, MPOL_PREFERRED, nodes.data(), kMostNodes + 1, 0) != 0) {
    return ErrnoError(errno, fmt::format("cannot ask for memory of node {}", node));
  }
  return Status::Ok();
}

void PreferNearMemory(void* first, size_t bytes) {
  if (MemoryNodeCount() > 1) static_cast<void>(PreferNode(first, bytes, NodeOfCallingThread()));
}

int NodeOfPage(const void* address) {
  int node = -1;
  if (syscall(SYS_get_mempolicy, &node, nullptr, 0UL, address, MPOL_F_NODE | MPOL_F_ADDR) != 0) {
    return -1;
  }
  return node;
}

}  // namespace harmonaize
