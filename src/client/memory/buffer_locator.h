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

/// Remembers where the buffers used last lie among the registered regions: programs use the same
/// ones again and again, and a look into the table costs as much as a small operation. For one
/// session and one rank; not thread safe.
class BufferLocator {
 public:
  /// For the rank of this member.
  explicit BufferLocator(uint32_t member) : member_(member) {}

  /// As RegionTable::LocateShareable, and offers the region to the other ranks of the communicator
  /// before they hear of it. kNoBuffer also where that fails.
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
  /// True for kNoBuffer, too. One that was unregistered meanwhile does no harm: numbers are given
  /// once only.
  bool Offer(Session& session, uint32_t region) {
    if (region == kNoBuffer || offered_.contains(region)) return true;
    OfferRegionRequest request;
    request.member = member_;
    request.region = region;
    if (!session.Call<OfferRegionReply>(request).ok()) return false;
    // A program that allocates and frees for ever is asked to offer again now and then.
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
