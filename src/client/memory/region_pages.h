#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"
#include "src/memory/shared_memory.h"

namespace harmonaize {

/// Values of HARMONAIZE_HUGE_PAGES, for registered memory.
enum class HugePages {
  kAuto,      ///< Huge pages where the host has some to give.
  kOff,       ///< Never.
  kRequired,  ///< An allocation that deserves huge pages and gets none fails.
};

/// Returns the variable's value; for an unknown one, after a warning, kAuto. Read once a process.
HugePages WantedHugePages();

/// Returns whether rounding `bytes` up to whole pages of `page_bytes` is worthwhile: it may waste
/// an eighth at most.
bool DeservesHugePages(uint64_t bytes, uint64_t page_bytes);

/// Shared memory of at least `bytes` (> 0) for a region, and a description of its pages for the
/// log.
struct RegionPages {
  SharedMemory memory;
  std::string description;
};

/// Allocates the best available pages: huge pages of the pool that the host has reserved, else
/// transparent ones if the host allows them for shared memory, else ordinary ones. On hosts with
/// several memory nodes the pages come from the node of the calling thread, whichever thread
/// touches them. Errors: those of CreateSharedMemory; with kRequired kSystemError that tells how to
/// reserve huge pages.
Result<RegionPages> AllocateRegionPages(uint64_t bytes, HugePages wanted);

}  // namespace harmonaize
