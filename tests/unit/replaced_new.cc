#include "tests/unit/replaced_new.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int> allocations{0};
std::atomic<int> allocations_left{-1};
std::atomic<int> until_one_fails{-1};

void* Allocate(size_t bytes, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const int left = allocations_left.load(std::memory_order_relaxed);
  if (left == 0) throw std::bad_alloc();
  if (left > 0) allocations_left.fetch_sub(1, std::memory_order_relaxed);
  const int until = until_one_fails.load(std::memory_order_relaxed);
  if (until >= 0) until_one_fails.fetch_sub(1, std::memory_order_relaxed);
  if (until == 0) throw std::bad_alloc();
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) {
  return Allocate(bytes, alignof(max_align_t));
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
// Without these, std::stable_sort's buffer would come from a sanitizer's allocator, and go to free.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept try {
  return Allocate(bytes, alignof(max_align_t));
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
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

int AllocationCount() {
  return allocations.load(std::memory_order_relaxed);
}

void LimitAllocations(int limit) {
  allocations_left.store(limit, std::memory_order_relaxed);
}

void FailOneAllocation(int after) {
  until_one_fails.store(after, std::memory_order_relaxed);
}

bool OneAllocationFailed() {
  return until_one_fails.load(std::memory_order_relaxed) < 0;
}

int AllocationsLeft() {
  return allocations_left.load(std::memory_order_relaxed);
}

}  // namespace harmonaize
