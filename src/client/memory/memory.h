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

/// The memory of this process that the daemon can map: what ncclMemAlloc gave out, and the staging
/// buffers. One table a process; thread safe. A region is announced to the daemon at its first use
/// and again after a reconnect, so memory outlives sessions.
class RegionTable {
 public:
  static RegionTable& Get();

  /// Fresh zeroed shared memory of at least `bytes` bytes, page aligned, on the pages that
  /// AllocateRegionPages finds for it.
  Result<void*> Allocate(size_t bytes);
  /// Gives back what Allocate returned; kInvalidArgument for any other address. Waits until the
  /// daemon has no operation on it.
  Status Free(void* address);

  /// How the daemon finds [address, address + bytes) when it lies in one region, announcing the
  /// region first where needed. kNoBuffer in `region` when it lies in none, or in one that cannot
  /// be announced any more: the program has closed the descriptor, or the region is known to the
  /// daemon of another session, such as that of the process that forked this one. Makes sure that
  /// the range has all its pages: the daemon makes none, or it would be charged for them. Errors:
  /// kSystemError where there is no memory for them, and those of a request to the daemon.
  Result<BufferReference> Locate(Session& session, const void* address, uint64_t bytes);

  /// The same for memory that other ranks can map: kNoBuffer for a region that they cannot.
  Result<BufferReference> LocateShareable(Session& session, const void* address, uint64_t bytes);

  /// Grows whenever a range of addresses becomes a region or ceases to be one: what LocateShareable
  /// answered stays true while this stays the same.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  /// Whether the whole range lies in one region.
  bool Contains(const void* address, uint64_t bytes);

 private:
  struct Region {
    explicit Region(Mapping memory)
        : mapping(std::move(memory)), populated(mapping.data(), mapping.size(), PageUse::kWrite) {}

    Mapping mapping;
    PopulatedChunks populated;
    OwnDescriptor descriptor;
    std::mutex announcing;
    /// The number of the session that knows the region under `id`; 0 for none.
    std::atomic<uint64_t> known_to{0};
    std::atomic<uint32_t> id{kNoBuffer};
    std::atomic<bool> shareable{false};
  };

  std::shared_ptr<Region> Find(uintptr_t address, uint64_t bytes);
  /// Where `bytes` bytes at `address`, which lie in `region` (nullptr: in none), are to the daemon.
  static Result<BufferReference> LocateIn(Region* region, Session& session, const void* address,
                                          uint64_t bytes);
  /// Waits until the session's daemon has let go of the region. A daemon that is gone has, too.
  static Status Withdraw(Session& session, uint32_t region);
  /// Makes a region known to the session, if it still can be: to one session ever.
  static Status Announce(Session& session, Region& region);

  std::atomic<uint64_t> generation_{0};
  std::shared_mutex mutex_;
  std::map<uintptr_t, std::shared_ptr<Region>> regions_;  // by first address
};

}  // namespace harmonaize
