#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <new>

namespace harmonaize::testing {

/// A Value that this process shares with those that it forks later. None of them destroys it.
template <class Value>
class SharedByProcesses {
 public:
  SharedByProcesses() {
    void* memory =
        mmap(nullptr, sizeof(Value), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    value_ = new (memory) Value;
  }
  ~SharedByProcesses() { munmap(value_, sizeof(Value)); }
  SharedByProcesses(const SharedByProcesses&) = delete;
  SharedByProcesses& operator=(const SharedByProcesses&) = delete;

  Value* operator->() const { return value_; }

 private:
  Value* value_;
};

}  // namespace harmonaize::testing
