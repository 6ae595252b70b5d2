#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/client/session/session.h"
#include "src/memory/populated_chunks.h"
#include "src/memory/shared_memory.h"

namespace harmonaize {

/// The registered memory of the other ranks of a communicator that this rank has mapped. It is read
/// only, because it is sealed against further writers. The daemon hands out the descriptors, and
/// only to ranks of the same communicator. Thread: one.
class PeerMemory {
 public:
  /// Returns where `bytes` bytes at `offset` of region `region` of `rank` are in this process. Maps
  /// the region at its first use, by a request to the daemon. Errors: kRemoteError when the rank
  /// has freed it.
  Result<const std::byte*> Find(Session& session, uint32_t member, int rank, uint32_t region,
                                uint64_t offset, uint64_t bytes);
  /// Unmaps a region that its owner has freed; until then its pages stay. `gone` is a GoneRegion.
  void Forget(uint64_t gone);
  void ForgetAll() { regions_.clear(); }
  /// Unmaps the oldest regions when there are many. Requires, as Forget does: nothing that Find
  /// gave is in use.
  void Trim();

 private:
  struct Region {
    int rank;
    uint32_t region;
    Mapping mapping;
    PopulatedChunks populated;
  };
  Result<Region*> Map(Session& session, uint32_t member, int rank, uint32_t region);

  /// Newest last.
  std::vector<Region> regions_;
};

}  // namespace harmonaize
