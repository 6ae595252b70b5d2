// What becomes of registered memory: when its rank frees it while others have it mapped, and when
// it outlives the session that it was registered with.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/rank_runner.h"

namespace harmonaize::testing {
namespace {

constexpr size_t kElements = size_t{64} << 10;
/// As much as goes directly from rank to rank, where all can be told to go inline.
constexpr const char* kInline = "[inline]\nregistered_bytes = 262144\nheap_bytes = 262144\n";

/// A size that nothing else in this process has.
constexpr size_t kBytes = kElements * sizeof(float) + 12345;

/// How many times memory of kBytes that ncclMemAlloc gave is mapped in this process.
int MappingsOfRegisteredMemory() {
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:harmonaize (deleted)") == std::string::npos) continue;
    char* end = nullptr;
    const uint64_t first = std::strtoull(line.c_str(), &end, 16);
    const uint64_t last = std::strtoull(end + 1, nullptr, 16);
    found += last - first == (kBytes + 4095) / 4096 * 4096 ? 1 : 0;
  }
  return found;
}

/// Whether an all-reduce of all of `memory` by one rank, a new communicator, is right.
bool ReducesAlone(float* memory, float value) {
  for (size_t i = 0; i < kElements; ++i) memory[i] = value;
  ncclUniqueId id;
  ncclComm_t communicator = nullptr;
  if (ncclGetUniqueId(&id) != ncclSuccess ||
      ncclCommInitRank(&communicator, 1, id, 0) != ncclSuccess) {
    return false;
  }
  float factor = 3;
  ncclRedOp_t triple = ncclSum;
  bool right = ncclRedOpCreatePreMulSum(&triple, &factor, ncclFloat, ncclScalarHostImmediate,
                                        communicator) == ncclSuccess &&
               ncclAllReduce(memory, memory, kElements, ncclFloat, triple, communicator, nullptr) ==
                   ncclSuccess;
  for (size_t i = 0; i < kElements; ++i) right = right && memory[i] == 3 * value;
  return ncclCommDestroy(communicator) == ncclSuccess && right;
}

TEST(RegisteredMemory, LeavesTheOtherRanksWhenItIsFreed) {
  const DaemonProcess daemon(kInline);
  RunAsThreads(3, [](int rank, ncclComm_t communicator) {
    float small = 1;
    std::vector<float> result(kElements);
    const auto meet = [&] {
      EXPECT_NCCL(ncclAllReduce(&small, &small, 1, ncclFloat, ncclMax, communicator, nullptr));
    };
    // More at once than a rank is told by name.
    for (const int buffers : {1, 3, 40}) {
      std::vector<float*> memory(static_cast<size_t>(buffers));
      for (float*& one : memory) {
        ASSERT_NCCL(ncclMemAlloc(reinterpret_cast<void**>(&one), kBytes));
        for (size_t i = 0; i < kElements; ++i) one[i] = 1;
        EXPECT_NCCL(ncclAllReduce(one, result.data(), kElements, ncclFloat, ncclSum, communicator,
                                  nullptr));
        EXPECT_EQ(result[kElements - 1], 3.0F);
      }
      meet();
      if (rank == 0) {
        // A rank that comes late has an operation go to the daemon, but not each time.
        EXPECT_TRUE(buffers < 40 || MappingsOfRegisteredMemory() > 3 * buffers);
      }
      meet();
      for (float* const one : memory) EXPECT_NCCL(ncclMemFree(one));
      // All have freed theirs, and then each has begun another operation.
      meet();
      meet();
      meet();
      if (rank == 0) {
        EXPECT_EQ(MappingsOfRegisteredMemory(), 0);
      }
      meet();
    }
  });
}

TEST(RegisteredMemory, CanBeUsedByAForkedChild) {
  const DaemonProcess daemon;
  void* memory = nullptr;
  ASSERT_NCCL(ncclMemAlloc(&memory, kElements * sizeof(float)));
  auto* const numbers = static_cast<float*>(memory);
  ASSERT_TRUE(ReducesAlone(numbers, 1));
  const pid_t child = fork();
  if (child == 0) _exit(ReducesAlone(numbers, 2) ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(numbers[0], 6.0F) << "it is the parent's, too";
  EXPECT_TRUE(ReducesAlone(numbers, 3));
  EXPECT_NCCL(ncclMemFree(memory));
}

TEST(RegisteredMemory, OutlivesItsDaemon) {
  std::optional<DaemonProcess> daemon(std::in_place);
  void* memory = nullptr;
  ASSERT_NCCL(ncclMemAlloc(&memory, kElements * sizeof(float)));
  ASSERT_TRUE(ReducesAlone(static_cast<float*>(memory), 1));
  daemon.reset();
  daemon.emplace();
  EXPECT_TRUE(ReducesAlone(static_cast<float*>(memory), 2));
  EXPECT_NCCL(ncclMemFree(memory));
}

}  // namespace
}  // namespace harmonaize::testing
