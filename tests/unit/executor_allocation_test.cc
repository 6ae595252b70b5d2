// A program of its own: it replaces operator new to count.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/unit/executor_testing.h"

namespace {

std::atomic<int> allocations{0};

}  // namespace

void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const auto multiple = static_cast<size_t>(alignment);
  void* memory = std::aligned_alloc(multiple, (bytes + multiple - 1) / multiple * multiple);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace harmonaize {
namespace {

TEST(ExecutorAllocation, NoneOnceTheShapesAreKnown) {
  CollectiveCase test_case{.collective = Collective::kAllToAll,
                           .ranks = 4,
                           .root = 0,
                           .count = 30'000,
                           .placement = Placement::kMixed,
                           .in_place = true};
  const ForeignProcess foreign(CollectiveRun::ForeignBytes(test_case));
  ASSERT_TRUE(foreign.valid());
  CollectiveRun mixed(test_case, &foreign);
  test_case.placement = Placement::kMapped;
  CollectiveRun mapped(test_case, &foreign);
  TestExecutor executor(2);
  Execution executions[2];
  const auto round = [&] {
    bool ok = mixed.Bind(executions[0], executor->machine()).ok() &&
              mapped.Bind(executions[1], executor->machine(), true).ok();
    for (Execution& execution : executions) executor->Start(&execution);
    while (executor->Help()) {
    }
    for (int i = 0; i < 2; ++i) ok = executor.Wait()->status().ok() && ok;
    return ok;
  };
  mixed.Fill(1);
  mapped.Fill(1);
  // Every thread has to have met every shape before; on a busy machine that may take a while.
  int allocated = 1;
  for (int attempt = 0; attempt < 20 && allocated > 0; ++attempt) {
    const int before = allocations.load();
    bool ok = true;
    for (int i = 0; i < 100; ++i) ok = round() && ok;
    allocated = allocations.load() - before;
    ASSERT_TRUE(ok);
  }
  EXPECT_EQ(allocated, 0);
}

}  // namespace
}  // namespace harmonaize
