#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "src/base/file_descriptor.h"

namespace harmonaize::testing {

/// Zeros of which nobody can read any but at both ends until they Arrive: who tries sleeps in a
/// page fault.
class LatePages {
 public:
  explicit LatePages(size_t bytes)
      : bytes_(bytes),
        memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        faults_(static_cast<int>(
            syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY))) {
    uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
    uffdio_register range{};
    range.range = Late();
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    valid_ = memory_ != MAP_FAILED && faults_.valid() &&
             ioctl(faults_.get(), UFFDIO_API, &api) == 0 &&
             ioctl(faults_.get(), UFFDIO_REGISTER, &range) == 0;
  }
  ~LatePages() { munmap(memory_, bytes_); }
  LatePages(const LatePages&) = delete;
  LatePages& operator=(const LatePages&) = delete;

  /// False: the kernel gave no such pages.
  bool valid() const { return valid_; }
  void* data() { return memory_; }
  void Arrive() {
    uffdio_zeropage zero{};
    zero.range = Late();
    EXPECT_EQ(ioctl(faults_.get(), UFFDIO_ZEROPAGE, &zero), 0);
  }

 private:
  static constexpr size_t kEnd = size_t{64} << 10;

  uffdio_range Late() const {
    return {reinterpret_cast<uint64_t>(memory_) + kEnd, bytes_ - 2 * kEnd};
  }

  const size_t bytes_;
  void* const memory_;
  const FileDescriptor faults_;
  bool valid_ = false;
};

}  // namespace harmonaize::testing
