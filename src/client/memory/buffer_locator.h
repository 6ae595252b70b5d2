#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>

#include "src/client/memory/memory.h"
#include "src/client/session/session.h"
#include "src/ipc/messages.h"
#include "src/ipc/session_segment.h"

namespace harmonaize {

/// Remembers where the last used buffers lie among the registered regions. Programs use the same
/// ones again and again, and a look-up in the table costs as much as a small operation. Serves one
/// session and one rank. Thread: one.
class BufferLocator {
 public:
  /// Serves the rank of this member.
  explicit BufferLocator(uint32_t member) : member_(member) {}

  /// Does what RegionTable::LocateShareable does, and also offers the region to the other ranks of
  /// the communicator before they can hear of it. Returns kNoBuffer also if the offer fails.
  BufferReference Locate(Session& session, const void* address, uint64_t bytes) {
    const uint64_t generation = RegionTable::Get().generation();
    for (const Entry& entry : entries_) {
      if (entry.address == address && entry.bytes == bytes && entry.generation == generation) {
        return entry.reference;
      }
    }
    const Result<BufferReference> found =
        RegionTable::Get().LocateShareable(session, address, bytes);
    const bool usable = found.ok() && Offer(session, found->region);
    const BufferReference reference = usable ? *found : BufferReference{};
    entries_[next_++ % entries_.size()] = {address, bytes, generation, reference};
    return reference;
  }

 private:
  struct Entry {
    const void* address = nullptr;
    uint64_t bytes = 0;
    uint64_t generation = 0;
    BufferReference reference;
  };
  /// Offers a region unless that was done. Returns true for kNoBuffer, too. A remembered region
  /// that was unregistered meanwhile does no harm, because numbers are never reused.
  bool Offer(Session& session, uint32_t region) {
    if (region == kNoBuffer || offered_.contains(region)) return true;
    OfferRegionRequest request;
    request.member = member_;
    request.region = region;
    if (!session.Call<OfferRegionReply>(request).ok()) return false;
    // The set is bounded; after this many regions, a program that keeps allocating offers some
    // again.
    constexpr size_t kMostRemembered = 4096;
    if (offered_.size() >= kMostRemembered) offered_.clear();
    offered_.insert(region);
    return true;
  }

  const uint32_t member_;
  std::set<uint32_t> offered_;  // regions
  std::array<Entry, 4> entries_ = {};
  size_t next_ = 0;
};

}  // namespace harmonaize
