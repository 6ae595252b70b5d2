#pragma once

#include <cstddef>
#include <cstdint>

#include "include/nccl.h"
#include "src/base/status.h"

namespace harmonaize::perf {

/// Where benchmark buffers come from; the values of option -R.
enum class Memory {
  kHeap = 0,        ///< posix_memalign; the library is told nothing.
  kRegistered = 1,  ///< ncclMemAlloc and ncclCommRegister.
  kWindow = 2,      ///< ncclMemAlloc and ncclCommWindowRegister, symmetric.
};

/// "heap", "registered", "window".
const char* MemoryName(Memory memory);

/// A Status that names the call and carries ncclGetLastError's sentence.
Status NcclStatus(ncclResult_t result, ncclComm_t comm, const char* call);

/// A buffer with guard bytes on both sides, to notice writes outside of it.
///
/// Page-aligned. Release before the communicator goes; the destructor only frees what is left
/// without telling the communicator.
class Buffer {
 public:
  /// Bytes on each side: more than any vector store, and a page, so that data() stays page-aligned.
  static constexpr size_t kGuardBytes = 4096;

  Buffer() = default;
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  /// Room for `bytes` bytes; every page is touched, so that no measurement pays for page faults of
  /// its own.
  Status Allocate(Memory memory, size_t bytes);
  /// Tells the communicator about the memory, as its kind wants. With Memory::kWindow a collective
  /// call: a thread with several ranks makes it inside a group.
  Status Register(ncclComm_t comm);
  /// Undoes both.
  Status Release(ncclComm_t comm);

  std::byte* data() { return base_ + kGuardBytes; }

  /// Prepares the kGuardBytes before data() and after data() + used.
  void ArmGuards(size_t used);
  /// How many guard bytes have changed since ArmGuards.
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
