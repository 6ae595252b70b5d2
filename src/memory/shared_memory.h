#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

/// A range of this process's address space that mmap returned; unmapped on destruction. Moving the
/// object does not move the memory.
class Mapping {
 public:
  Mapping() = default;
  /// Takes over a range that mmap returned.
  Mapping(std::byte* data, size_t size) : data_(data), size_(size) {}
  ~Mapping() { Reset(); }
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      Reset();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool valid() const { return data_ != nullptr; }
  void Reset();
  /// Notes that the caller has unmapped all but the first `size` bytes.
  void Shorten(size_t size) { size_ = size; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Shared memory that this process made: the descriptor to hand out, and our own mapping of it.
struct SharedMemory {
  FileDescriptor descriptor;
  Mapping mapping;
};

/// Makes `bytes` (> 0) of zeroed memory that other processes can map once they have the descriptor.
/// It has no name in any file system, and is gone with its last descriptor and mapping. The size is
/// sealed: no process, including this one, can shrink or grow it, so neither side can make the
/// other fault by truncation. Further seals may be added, as MapAndSeal does. `name` shows up only
/// in /proc/PID/maps. Errors: kInvalidArgument for a size of 0 or one that no file can have,
/// kSystemError when the kernel refuses.
Result<SharedMemory> CreateSharedMemory(const char* name, uint64_t bytes);

/// Does what CreateSharedMemory does, on pages of the kernel's default huge size, from the pool
/// that the host has reserved (vm.nr_hugepages). `bytes` is rounded up to whole pages. All pages
/// exist when it returns, near the calling thread if possible, so an access cannot fail later.
/// Errors: kInvalidArgument for a size of 0 or one that no file can have; kSystemError when the
/// pool, or this process's share of it, is too small, or the kernel has no such pages (before Linux
/// 5.14 none that this serves).
Result<SharedMemory> CreateHugePageMemory(const char* name, uint64_t bytes);

/// Returns the bytes of a huge page of that kind; 0 where the kernel has none.
uint64_t HugePageBytes();

/// Whether files on huge pages are accepted. If the pool is empty, the next access to a missing
/// page raises SIGBUS. So they are only for descriptors whose owners are all trusted, or under a
/// FaultGuard.
enum class HugePageFiles { kRefuse, kAccept };

enum class Access { kRead, kReadAndWrite };

/// Maps `expected_size` bytes of a descriptor that was not made here, from its start, shared. The
/// descriptor may come from a hostile process. These are the checks, and their reasons:
/// - it is a tmpfs file: a disk or FUSE file could make any access wait for its owner for ever.
///   With HugePageFiles::kAccept a hugetlbfs file will do, of pages of 32 MiB at most (the kernel
///   clears a page in one go, in the thread that touches it first) and announced with whole pages;
/// - it is sealed against shrinking: truncation would turn any access into SIGBUS. Only a memfd can
///   have that seal, a file in a mounted (thus size-limited) tmpfs cannot;
/// - it holds at least `expected_size` bytes now, and by the seal from now on.
/// The owner can still change the contents at any moment: read every value once, then check it. It
/// can also make holes, and block threads that touch them for as long as it likes. The descriptor
/// stays the caller's and may be closed afterwards. Errors: kInvalidArgument that names what was
/// wrong; kSystemError when mmap fails.
Result<Mapping> MapForeign(int descriptor, uint64_t expected_size, HugePageFiles huge_pages,
                           Access access);

/// Maps memory writable, and seals it against later writers (F_SEAL_FUTURE_WRITE, since Linux 5.1):
/// existing writable mappings stay, and no further ones can be made. The kernel then makes no holes
/// in it either, for anybody; while it makes one, a thread that touches the range waits in the
/// kernel. This waits for a hole that is being made, which may take as long as the owner likes.
/// Errors: those of MapForeign, and kInvalidArgument for memory that has this seal already, or
/// cannot be sealed.
Result<Mapping> MapAndSeal(int descriptor, uint64_t expected_size,
                           HugePageFiles huge_pages = HugePageFiles::kRefuse);

/// Returns whether MapAndSeal would refuse the memory because it has been sealed, perhaps for
/// another session.
bool IsSealedAgainstWriters(int descriptor);

}  // namespace harmonaize
