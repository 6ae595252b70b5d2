#pragma once

#include <cstddef>
#include <cstdint>

#include "include/nccl.h"
#include "src/base/status.h"

namespace harmonaize::perf {

/// Kinds of benchmark buffers; the values of option -R.
enum class Memory {
  kHeap = 0,        ///< posix_memalign; the library is told nothing.
  kRegistered = 1,  ///< ncclMemAlloc and ncclCommRegister.
  kWindow = 2,      ///< ncclMemAlloc and ncclCommWindowRegister, symmetric.
};

/// Returns "heap", "registered", "window".
const char* MemoryName(Memory memory);

/// Returns a Status that names the call and carries ncclGetLastError's sentence.
Status NcclStatus(ncclResult_t result, ncclComm_t comm, const char* call);

/// A buffer with guard bytes on both sides, to notice writes outside of it.
///
/// Page-aligned. Release it before the communicator ends; the destructor only frees memory that is
/// left, without telling the communicator.
class Buffer {
 public:
  /// Bytes of guards on each side: more than any vector store, and a page, so data() stays
  /// page-aligned.
  static constexpr size_t kGuardBytes = 4096;

  Buffer() = default;
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// Allocates `bytes` bytes, and touches every page, so that no measurement pays for page faults.
  Status Allocate(Memory memory, size_t bytes);
  /// Registers the memory with the communicator, as its kind requires. With Memory::kWindow a
  /// collective call: a thread with several ranks makes it inside a group.
  Status Register(ncclComm_t comm);
  /// Undoes Register and Allocate.
  Status Release(ncclComm_t comm);

  std::byte* data() { return base_ + kGuardBytes; }

  /// Fills the kGuardBytes before data() and after data() + used.
  void ArmGuards(size_t used);
  /// Returns how many guard bytes have changed since ArmGuards.
  uint64_t DamagedGuardBytes() const;

 private:
  Memory memory_ = Memory::kHeap;
  std::byte* base_ = nullptr;
  size_t total_ = 0;
  size_t used_ = 0;
  void* registration_ = nullptr;
  ncclWindow_t window_ = nullptr;
};

}  // namespace harmonaize::perf
