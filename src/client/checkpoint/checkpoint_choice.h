#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/base/status.h"
#include "src/client/checkpoint/saved_checkpoint.h"
#include "src/client/operation/communicator.h"

namespace harmonaize {

/// Which checkpoint the ranks of a communicator read.
struct CheckpointChoice {
  uint64_t step = 0;
  uint64_t save = 0;
  int ranks = 1;
  CheckpointPlace place = CheckpointPlace::kMemory;
};

/// Returns the daemon's list of the job's checkpoints, in memory here and at other hosts and in the
/// provider's store, as JSON.
Result<std::string> ListSaves(Communicator& communicator);

/// Agrees with the other ranks of the communicator, which all call, on a checkpoint: rank 0 looks
/// in memory and in the store, and tells the others what it has chosen. Errors: those of
/// SavedCheckpoint::Open.
Result<CheckpointChoice> AgreeOnCheckpoint(Communicator& communicator, const std::string& folder,
                                           std::optional<uint64_t> step);

}  // namespace harmonaize
