#include "src/client/memory/peer_memory.h"

#include <sys/mman.h>

#include <algorithm>

namespace harmonaize {
namespace {

// Most regions of other ranks that stay mapped.
constexpr size_t kMostRegions = 256;

}  // namespace

Result<const std::byte*> PeerMemory::Find(Session& session, uint32_t member, int rank,
                                          uint32_t region, uint64_t offset, uint64_t bytes) {
  const auto known = std::find_if(regions_.begin(), regions_.end(), [&](const Region& one) {
    return one.rank == rank && one.region == region;
  });
  Region* found = nullptr;
  if (known != regions_.end()) {
    found = &*known;
  } else {
    HZ_ASSIGN_OR_RETURN(found, Map(session, member, rank, region));
  }
  // The other rank wrote these numbers; it belongs to the same user, but may be wrong.
  if (offset > found->mapping.size() || bytes > found->mapping.size() - offset) {
    return InternalError("rank {} names {} bytes at {} of its region {}, which has {}", rank, bytes,
                         offset, region, found->mapping.size());
  }
  // The owner uses these pages, so they exist already, except at the ends of the range. If the
  // kernel has no memory for the ends, the used pages exist all the same.
  static_cast<void>(found->populated.Populate(offset, bytes));
  return found->mapping.data() + offset;
}

void PeerMemory::Forget(uint64_t gone) {
  std::erase_if(regions_,
                [&](const Region& one) { return GoneRegion(one.rank, one.region) == gone; });
}

void PeerMemory::Trim() {
  if (regions_.size() <= kMostRegions) return;
  regions_.erase(regions_.begin(), regions_.end() - static_cast<ptrdiff_t>(kMostRegions / 2));
}

Result<PeerMemory::Region*> PeerMemory::Map(Session& session, uint32_t member, int rank,
                                            uint32_t region) {
  MapPeerRegionRequest request;
  request.member = member;
  request.rank = rank;
  request.region = region;
  std::vector<FileDescriptor> descriptors;
  HZ_ASSIGN_OR_RETURN(const MapPeerRegionReply reply,
                      session.Call<MapPeerRegionReply>(request, {}, {}, &descriptors));
  if (descriptors.size() != 1) return InternalError("the daemon sent no region to map");
  HZ_ASSIGN_OR_RETURN(Mapping mapping, MapForeign(descriptors.front().get(), reply.bytes,
                                                  HugePageFiles::kAccept, Access::kRead));
  madvise(mapping.data(), mapping.size(), MADV_DONTFORK);
  madvise(mapping.data(), mapping.size(), MADV_HUGEPAGE);
  PopulatedChunks populated(mapping.data(), mapping.size(), PageUse::kRead);
  regions_.push_back({rank, region, std::move(mapping), std::move(populated)});
  return &regions_.back();
}

}  // namespace harmonaize
