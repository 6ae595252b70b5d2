#pragma once

#include <string>
#include <vector>

#include "cli/json_view.h"
#include "src/checkpoint/shard_reader.h"
#include "src/checkpoint/stored_checkpoint.h"

namespace harmonaize {

/// Return a store's list of checkpoints for people, and for programs.
std::string CheckpointTable(const std::vector<checkpoint::CheckpointSummary>& list);
Json CheckpointDocument(const std::vector<checkpoint::CheckpointSummary>& list);

/// Return what a checkpoint consists of: its tensors, and the ranks that have saved them.
std::string TensorTable(const checkpoint::StoredCheckpoint& stored,
                        const checkpoint::ShardReader& reader);
Json TensorDocument(const checkpoint::StoredCheckpoint& stored,
                    const checkpoint::ShardReader& reader);

}  // namespace harmonaize
