#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <utility>

#include "src/base/own_descriptor.h"
#include "src/base/status.h"
#include "src/client/session/session.h"
#include "src/ipc/session_segment.h"
#include "src/memory/populated_chunks.h"
#include "src/memory/shared_memory.h"

namespace harmonaize {

/// The memory of this process that the daemon can map: the memory from ncclMemAlloc, and the
/// staging buffers. There is one table a process. A region is announced to the daemon at its first
/// use and again after a reconnect, so memory outlives sessions. Thread: any.
class RegionTable {
 public:
  static RegionTable& Get();

  /// Returns fresh zeroed shared memory of at least `bytes` bytes, page aligned, on the pages that
  /// AllocateRegionPages finds for it. All of its pages are there. Errors: kSystemError where there
  /// is no memory for them.
  Result<void*> Allocate(size_t bytes);
  /// Frees memory that Allocate returned; waits until no operation of the daemon uses it. Errors:
  /// kInvalidArgument for any other address.
  Status Free(void* address);

  /// Returns how the daemon finds [address, address + bytes) when it lies in one region, which is
  /// announced first where needed. The region is kNoBuffer when the range lies in none, or in one
  /// that cannot be announced any more: the program has closed the descriptor, or the daemon knows
  /// the region from another session, such as that of the process that forked this one. Makes sure
  /// that the range has all its pages: the daemon makes none, because it would be charged for them.
  /// Errors: kSystemError where there is no memory for them, and those of a request to the daemon.
  /// The first call for a region takes long: both sides bring its pages in.
  Result<BufferReference> Locate(Session& session, const void* address, uint64_t bytes);

  /// Does what Locate does, but returns kNoBuffer for a region that other ranks cannot map.
  Result<BufferReference> LocateShareable(Session& session, const void* address, uint64_t bytes);

  /// Returns a number that grows whenever a range of addresses becomes a region or ceases to be
  /// one. Answers of LocateShareable stay true while it is unchanged.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  /// Returns whether the whole range lies in one region.
  bool Contains(const void* address, uint64_t bytes);

 private:
  struct Region {
    explicit Region(Mapping memory)
        : mapping(std::move(memory)), populated(mapping.data(), mapping.size(), PageUse::kWrite) {}

    Mapping mapping;
    PopulatedChunks populated;
    OwnDescriptor descriptor;
    std::mutex announcing;
    /// Number of the session that knows the region under `id`; 0 for none.
    std::atomic<uint64_t> known_to{0};
    std::atomic<uint32_t> id{kNoBuffer};
    std::atomic<bool> shareable{false};
  };

  std::shared_ptr<Region> Find(uintptr_t address, uint64_t bytes);
  /// Returns where `bytes` bytes at `address`, in `region` (nullptr: in none), are for the daemon.
  static Result<BufferReference> LocateIn(Region* region, Session& session, const void* address,
                                          uint64_t bytes);
  /// Waits until the session's daemon no longer uses the region. A daemon that is gone uses
  /// nothing.
  static Status Withdraw(Session& session, uint32_t region);
  /// Makes a region known to the session, if that is still possible: only one session ever knows
  /// it.
  static Status Announce(Session& session, Region& region);

  std::atomic<uint64_t> generation_{0};
  std::shared_mutex mutex_;
  std::map<uintptr_t, std::shared_ptr<Region>> regions_;  // by first address
};

}  // namespace harmonaize
