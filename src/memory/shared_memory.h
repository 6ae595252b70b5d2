#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize {

/// A range of this process's address space that mmap gave; unmapped when it goes. The memory stays
/// where it is when the object is moved.
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
  /// The caller has unmapped all but the first `size` bytes.
  void Shorten(size_t size) { size_ = size; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Shared memory that this process made: the descriptor to hand to others, and our own view of it.
struct SharedMemory {
  FileDescriptor descriptor;
  Mapping mapping;
};

/// Makes `bytes` (> 0) of zeroed memory that other processes can map once they have the descriptor.
/// It has no name in any file system and is gone with its last descriptor and mapping. The size is
/// sealed: nobody, this process included, can shrink or grow it, so neither side can make the other
/// fault by truncating. Further seals may be added, as MapAndSeal does. `name` shows up in
/// /proc/PID/maps only.
/// Errors: kInvalidArgument for a size of 0 or one that no file can have, kSystemError when the
/// kernel refuses.
Result<SharedMemory> CreateSharedMemory(const char* name, uint64_t bytes);

/// The same on pages of the kernel's default huge size, from the pool that the host has reserved
/// (vm.nr_hugepages); `bytes` is rounded up to whole pages. All pages are there when it returns,
/// near the calling thread if possible: an access cannot fail later. Errors: kInvalidArgument for a
/// size of 0 or one that no file can have; kSystemError when the pool, or this process's share of
/// it, is too small, or the kernel has no such pages (before Linux 5.14 none that this serves).
Result<SharedMemory> CreateHugePageMemory(const char* name, uint64_t bytes);

/// What a huge page of that kind holds; 0 where the kernel has none.
uint64_t HugePageBytes();

/// Whether files on huge pages are taken. Where the pool is empty, a page that is not there raises
/// SIGBUS at the next access. So: where every owner of the descriptor is trusted, or under a
/// FaultGuard.
enum class HugePageFiles { kRefuse, kAccept };

enum class Access { kRead, kReadAndWrite };

/// Maps `expected_size` bytes of a descriptor that was not made here, from its start, shared. The
/// descriptor may come from someone hostile. What is checked, and why:
/// - it is a tmpfs file: a disk or FUSE file could make any access wait for its owner for ever.
///   With HugePageFiles::kAccept a hugetlbfs file will do, of pages of 32 MiB at most (the kernel
///   clears a page in one go, in whichever thread touches it first) and announced with whole pages;
/// - it is sealed against shrinking: truncation would turn any access into SIGBUS. Only a memfd can
///   carry that seal, a file in a mounted (thus size-limited) tmpfs cannot;
/// - it holds at least `expected_size` bytes now, and by the seal from now on.
/// The owner can still change the contents at any moment: read every value once, then check it. And
/// it can make holes, and keep whoever touches them waiting for as long as it likes.
/// The descriptor stays the caller's and may be closed afterwards.
/// Errors: kInvalidArgument that names what was wrong; kSystemError when mmap fails.
Result<Mapping> MapForeign(int descriptor, uint64_t expected_size, HugePageFiles huge_pages,
                           Access access);

/// Maps it writable, and seals it against writers that come later (F_SEAL_FUTURE_WRITE, since Linux
/// 5.1): what is mapped writable stays so, and nobody maps it writable any more. The kernel then
/// makes no holes in it either, whoever asks: while it makes one, a thread that touches the range
/// waits in the kernel. A hole that is being made is waited for here, which may take as long as the
/// owner likes.
/// Errors: as MapForeign, and kInvalidArgument for memory that is sealed against this already, or
/// against being sealed.
Result<Mapping> MapAndSeal(int descriptor, uint64_t expected_size,
                           HugePageFiles huge_pages = HugePageFiles::kRefuse);

/// Whether MapAndSeal would refuse it because it has been sealed, for another session perhaps.
bool IsSealedAgainstWriters(int descriptor);

}  // namespace harmonaize
