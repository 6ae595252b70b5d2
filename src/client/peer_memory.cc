#include "src/client/peer_memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "src/memory/populate_pages.h"

namespace harmonaize {
namespace {

constexpr size_t kMostRegions = 256;

}  // namespace

Result<std::byte*> PeerMemory::Find(Session& session, uint32_t member, int rank, uint32_t region,
                                    uint64_t offset, uint64_t bytes) {
  const auto known = std::find_if(regions_.begin(), regions_.end(), [&](const Region& one) {
    return one.rank == rank && one.region == region;
  });
  Region* found = nullptr;
  if (known != regions_.end()) {
    found = &*known;
  } else {
    Result<Region*> mapped = Map(session, member, rank, region);
    if (!mapped.ok()) return mapped.status();
    found = *mapped;
  }
  // The other rank wrote these; it is of the same user, but may be wrong.
  if (offset > found->mapping.size() || bytes > found->mapping.size() - offset) {
    return InternalError("rank {} names {} bytes at {} of its region {}, which has {}", rank, bytes,
                         offset, region, found->mapping.size());
  }
  MakePresent(*found, offset, bytes);
  return found->mapping.data() + offset;
}

// All pages of a chunk at once; where the kernel refuses, they fault one by one.
// Its owner uses them, so they are memory already, but for the ends of the range.
void PeerMemory::MakePresent(Region& region, uint64_t offset, uint64_t bytes) {
  for (uint64_t chunk = offset / kChunkBytes; chunk * kChunkBytes < offset + bytes; ++chunk) {
    if (region.present[chunk]) continue;
    region.present[chunk] = true;
    const uint64_t first = chunk * kChunkBytes;
    const uint64_t bytes_left = region.mapping.size() - first;
    static_cast<void>(PopulatePages(region.mapping.data() + first,
                                    std::min(kChunkBytes, bytes_left), PageUse::kWrite));
  }
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
  const Result<MapPeerRegionReply> reply =
      session.Call<MapPeerRegionReply>(request, {}, {}, &descriptors);
  if (!reply.ok()) return reply.status();
  if (descriptors.size() != 1) return InternalError("the daemon sent no region to map");
  Result<Mapping> mapping =
      MapForeign(descriptors.front().get(), reply->bytes, HugePageFiles::kAccept);
  if (!mapping.ok()) return mapping.status();
  // Of the same user, who is trusted not to make holes in it.
  madvise(mapping->data(), mapping->size(), MADV_DONTFORK);
  madvise(mapping->data(), mapping->size(), MADV_HUGEPAGE);
  const uint64_t chunks = (mapping->size() + kChunkBytes - 1) / kChunkBytes;
  regions_.push_back({rank, region, std::move(*mapping), std::vector<bool>(chunks, false)});
  return &regions_.back();
}

}  // namespace harmonaize
