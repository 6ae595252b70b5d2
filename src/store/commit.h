#pragma once

#include <cstdint>
#include <string>

#include "src/base/status.h"
#include "src/checkpoint/writer_messages.h"
#include "src/store/store.h"

namespace harmonaize::store {

/// Makes a checkpoint of the parts of all ranks, once they are there. The writer of each part looks
/// for the others', and who finds the last one commits: whichever of them dies, the others still
/// do. Thread: one.
class Commit {
 public:
  /// Requires: `store` outlives this object, and this rank's manifest is written.
  Commit(const Store* store, OpenCheckpoint checkpoint, int32_t rank, int32_t ranks);

  /// Looks for the others' parts, and commits when all are there. Returns whether the checkpoint is
  /// committed, by whomever. Errors: kRemoteError if another rank has failed; kInvalidArgument for
  /// parts that do not belong together; kSystemError.
  Result<bool> Look();

  /// Whether it was this object that committed.
  bool is_ours() const { return is_ours_; }
  /// Returns the first rank whose part has not come, as far as it was looked for.
  int32_t missing_rank() const { return (rank_ + found_) % ranks_; }
  const checkpoint::CheckpointId& id() const { return checkpoint_.id; }
  OpenCheckpoint& checkpoint() { return checkpoint_; }

 private:
  Result<std::string> RecordText() const;

  const Store* store_;
  OpenCheckpoint checkpoint_;
  int32_t rank_;
  int32_t ranks_;
  int32_t found_ = 1;  ///< Parts that are there, from this rank's own on.
  bool is_ours_ = false;
};

/// Tells the writers of all parts that a checkpoint will not come about.
void MarkFailed(const OpenCheckpoint& checkpoint);
/// Returns whether somebody has told so.
bool IsMarkedFailed(const OpenCheckpoint& checkpoint);

}  // namespace harmonaize::store
