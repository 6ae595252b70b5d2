// No exception crosses the C interface, whichever allocation fails: each is made to fail in a
// child, because what the face decides it decides once in a process.

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "include/harmonaize.h"
#include "tests/unit/replaced_new.h"

extern "C" void ncclResetDebugInitInternal();

namespace harmonaize {
namespace {

enum class Outcome : int { kEnoughMemory = 0, kReturned, kThrew };

/// What happens in a child when `call` runs with memory for `allocations` allocations.
Outcome RunWith(int allocations, const std::function<void()>& call) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("HARMONAIZE_SOCKET", "/nonexistent/harmonaized.sock", 1);
    setenv("HARMONAIZE_FALLBACK", "nccl", 1);
    setenv("HARMONAIZE_NCCL_LIBRARY", "/nonexistent/libnccl.so.2", 1);
    // Nobody wants to read it, but the name is too long for a string without memory.
    setenv("NCCL_DEBUG_FILE", "/dev/../dev/../dev/../dev/../dev/null", 1);
    setenv("NCCL_DEBUG", "INFO", 1);
    auto outcome = Outcome::kThrew;
    try {
      LimitAllocations(allocations);
      call();
      outcome = AllocationsLeft() > 0 ? Outcome::kEnoughMemory : Outcome::kReturned;
    } catch (...) {
    }
    _exit(static_cast<int>(outcome));
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? static_cast<Outcome>(WEXITSTATUS(status)) : Outcome::kThrew;
}

void ExpectThatNothingThrows(const std::function<void()>& call) {
  constexpr int kEnough = 10'000;
  for (int allocations = 0; allocations < kEnough; ++allocations) {
    const Outcome outcome = RunWith(allocations, call);
    ASSERT_NE(outcome, Outcome::kThrew) << "with memory for " << allocations << " allocations";
    if (outcome == Outcome::kEnoughMemory) return;
  }
  FAIL() << "there is never enough memory";
}

TEST(ShimWithoutMemory, TheChoiceOfARoute) {
  ExpectThatNothingThrows([] {
    int version = 0;
    ncclGetVersion(&version);
  });
}

TEST(ShimWithoutMemory, TheLog) {
  ExpectThatNothingThrows([] { ncclResetDebugInitInternal(); });
}

TEST(ShimWithoutMemory, AFailedCall) {
  ExpectThatNothingThrows([] {
    ncclComm_t communicator = nullptr;
    ncclCommInitAll(&communicator, 1, nullptr);
    ncclGetLastError(nullptr);
  });
}

TEST(ShimWithoutMemory, AGroup) {
  ExpectThatNothingThrows([] {
    ncclGroupStart();
    ncclUniqueId id = {};
    ncclComm_t communicator = nullptr;
    ncclCommInitRank(&communicator, 2, id, 1);
    ncclAllReduce(nullptr, nullptr, 1, ncclFloat, ncclSum, nullptr, nullptr);
    ncclGroupEnd();
  });
}

}  // namespace
}  // namespace harmonaize
