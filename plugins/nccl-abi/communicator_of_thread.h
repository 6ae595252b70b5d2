#pragma once

#include <cstddef>
#include <cstdint>

namespace harmonaize::nccl_abi {

// NCCL 2.27 tells the profiler which communicator a thread is about to make, and does not tell the
// tuner, whose init it calls on the same thread a little later.

/// Notes what the profiler was told last on this thread.
void NoteCommunicatorOfThread(uint64_t id, size_t ranks, size_t hosts) noexcept;
/// Returns the id of the communicator that was noted last, if it has so many ranks and hosts; else
/// 0. Forgets it in both cases.
uint64_t TakeCommunicatorOfThread(size_t ranks, size_t hosts) noexcept;

}  // namespace harmonaize::nccl_abi
