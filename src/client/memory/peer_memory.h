#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/client/session/session.h"
#include "src/memory/populated_chunks.h"
#include "src/memory/shared_memory.h"

namespace harmonaize {

/// The registered memory of the other ranks of a communicator, as far as this rank has mapped it:
/// to read from, for it is sealed against further writers. The daemon hands out the descriptors,
/// and only to ranks of the same communicator. Used by one thread at a time.
class PeerMemory {
 public:
  /// Where `bytes` bytes at `offset` of region `region` of `rank` are in this process. Maps the
  /// region at its first use: a request to the daemon. kRemoteError when the rank has given it up.
  Result<const std::byte*> Find(Session& session, uint32_t member, int rank, uint32_t region,
                                uint64_t offset, uint64_t bytes);
  /// Lets go of a region that its owner has given up: until then its pages stay. `gone` as
  /// GoneRegion makes it.
  void Forget(uint64_t gone);
  void ForgetAll() { regions_.clear(); }
  /// Forgets the oldest regions when there are many. Requires, as Forget does: nothing
  /// that Find gave is in use.
  void Trim();

 private:
  struct Region {
    int rank;
    uint32_t region;
    Mapping mapping;
    PopulatedChunks populated;
  };
  Result<Region*> Map(Session& session, uint32_t member, int rank, uint32_t region);

  /// The newest last.
  std::vector<Region> regions_;
};

}  // namespace harmonaize
