#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/checkpoint/stored_checkpoint.h"

namespace harmonaize::store {

/// Hears how many bytes of how many are done.
using Progress = std::function<void(uint64_t done, uint64_t total)>;

/// What looking at all of a checkpoint has shown.
struct Verdict {
  std::vector<std::string> problems = {};  ///< Sentences; none: it is whole.
  uint64_t objects = 0;
  uint64_t shards = 0;
  uint64_t tensors = 0;  ///< Objects of programs included.
  uint64_t bytes = 0;    ///< Of files that were read.
};

/// Reads every file of a checkpoint and compares the manifests and the files with their digests,
/// and each shard with its checksum. Checks that the shards of each tensor agree about it and cover
/// it. Errors: none but those that have nothing to do with the checkpoint.
Result<Verdict> Verify(checkpoint::StoredCheckpoint* stored, const Progress& progress);

}  // namespace harmonaize::store
