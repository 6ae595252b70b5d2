#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/client/session/session.h"
#include "src/memory/populated_chunks.h"
#include "src/memory/shared_memory.h"

namespace harmonaize {

/// The registered memory of the other ranks of a communicator, as far as this rank has mapped it.
/// The daemon hands out the descriptors, and only to ranks of the same communicator. Used by one
/// thread at a time.
class PeerMemory {
 public:
  /// Where `bytes` bytes at `offset` of region `region` of `rank` are in this process. Maps the
  /// region at its first use: a request to the daemon. kRemoteError when the rank has given it up.
  Result<std::byte*> Find(Session& session, uint32_t member, int rank, uint32_t region,
                          uint64_t offset, uint64_t bytes);
  /// Forgets the oldest regions when there are many. To be called while nothing that Find gave is
  /// in use.
  void Trim();

 private:
  struct Region {
    int rank;
    uint32_t region;
    Mapping mapping;
    PopulatedChunks populated;
  };
  Result<Region*> Map(Session& session, uint32_t member, int rank, uint32_t region);

  /// The newest last. What a rank frees gives its pages back all the same, so an entry
  /// that is not used any more costs address space only.
  std::vector<Region> regions_;
};

}  // namespace harmonaize
