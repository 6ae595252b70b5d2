#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "src/base/status.h"
#include "src/checkpoint/manifest.h"
#include "src/checkpoint/part_image.h"
#include "src/checkpoint/writer_messages.h"
#include "src/store/object_file.h"
#include "src/store/pace.h"
#include "src/store/shard_stream.h"
#include "src/store/store.h"

namespace harmonaize::store {

/// Writes one rank's parts of checkpoints. Thread: one.
class PartWriter {
 public:
  /// Requires: `store` outlives this object. `go_on` is asked between pieces of a few MiB; what it
  /// returns ends the work, unless it is ok.
  PartWriter(const Store* store, checkpoint::OpenStore options, std::function<Status()> go_on);

  /// Writes the part that `read` reads the image of, and makes it durable. Objects that the store
  /// has are not written again. Returns what its manifest says. Errors: kInvalidArgument if the
  /// image is damaged, or is another part; kInvalidUsage if it changes meanwhile; kSystemError;
  /// those of go_on.
  Result<checkpoint::PartManifest> Write(const checkpoint::SaveImage& save,
                                         const checkpoint::ReadImage& read,
                                         const OpenCheckpoint& into);

  /// Writes shards that lie in memory as `table` says, as Write does. Requires: `table` is of this
  /// writer's rank, and every shard has passed CheckShard. Errors: as Write, but for the image.
  Result<checkpoint::PartManifest> WriteShards(const checkpoint::PartTable& table,
                                               const checkpoint::ReadImage& read,
                                               const OpenCheckpoint& into);

 private:
  /// A file that is written, and not durable yet.
  struct Unsynced {
    ObjectFile file;
    std::string name;
  };

  Status CheckIdentity(const checkpoint::PartIdentity& identity,
                       const checkpoint::SaveImage& save) const;
  Result<checkpoint::StoredObject> WriteObject(const std::vector<checkpoint::PlacedShard>& shards,
                                               const checkpoint::ReadImage& read,
                                               const OpenCheckpoint& into, uint64_t* new_bytes);
  Status WriteFile(const ObjectLayout& layout, std::span<const ShardSums> sums,
                   const ReadShard& read, const std::string& name, const OpenCheckpoint& into);
  Status SyncAll(const OpenCheckpoint& into);

  const Store* const store_;
  const checkpoint::OpenStore options_;
  ShardStream stream_;
  Pace pace_;
  std::deque<Unsynced> unsynced_;
};

}  // namespace harmonaize::store
