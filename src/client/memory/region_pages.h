#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"
#include "src/memory/shared_memory.h"

namespace harmonaize {

/// What HARMONAIZE_HUGE_PAGES says of registered memory.
enum class HugePages {
  kAuto,      ///< Huge pages where the host has some to give.
  kOff,       ///< Never.
  kRequired,  ///< An allocation that deserves them and gets none fails.
};

/// The variable's value; for an unknown one, after a warning, kAuto. Looked at once a process.
HugePages WantedHugePages();

/// Whether `bytes` are worth rounding up to whole pages of `page_bytes`: what is lost is an eighth
/// at most.
bool DeservesHugePages(uint64_t bytes, uint64_t page_bytes);

/// Shared memory of at least `bytes` (> 0) for a region, and what its pages are, for the log.
struct RegionPages {
  SharedMemory memory;
  std::string description;
};

/// The best of these that is to be had: huge pages of the pool that the host has reserved; the
/// transparent ones, where the host allows them for shared memory; ordinary ones. On hosts with
/// several memory nodes its pages come from the node of the calling thread, whoever touches them.
/// Errors: those of CreateSharedMemory; with kRequired kSystemError that tells how to reserve huge
/// pages.
Result<RegionPages> AllocateRegionPages(uint64_t bytes, HugePages wanted);

}  // namespace harmonaize
