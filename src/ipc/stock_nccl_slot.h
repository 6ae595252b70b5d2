#pragma once

#include <atomic>
#include <cstdint>

namespace harmonaize {

/// What a rank tells of operations that stock NCCL carries for it, beside its communicator here.
/// The tenant writes it: it is no more than the tenant's word, for the tenant's and the operator's
/// eyes.
struct alignas(64) StockNcclSlot {
  std::atomic<uint32_t> carries;      ///< 1 once stock NCCL carries the communicator's operations.
  std::atomic<uint64_t> calls;        ///< Operations that were handed to stock NCCL.
  std::atomic<uint64_t> bytes;        ///< Of the larger buffer of each.
  std::atomic<uint64_t> nanoseconds;  ///< Time of the host inside these calls.

  void Clear() {
    carries.store(0, std::memory_order_relaxed);
    calls.store(0, std::memory_order_relaxed);
    bytes.store(0, std::memory_order_relaxed);
    nanoseconds.store(0, std::memory_order_relaxed);
  }
};

}  // namespace harmonaize
