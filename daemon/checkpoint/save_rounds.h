#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// Which saves of a communicator are complete, so that every rank's part is in memory. Ranks save
/// in rounds 1, 2, ..., and none begins a round before the one before it is complete: so at any
/// moment each rank still has its part of the newest complete round. Kept at the communicator's
/// home. A plain value.
class SaveRounds {
 public:
  explicit SaveRounds(int ranks) : newest_of_rank_(static_cast<size_t>(ranks), 0) {}

  /// What a rank has saved.
  struct Part {
    int rank = 0;
    uint64_t round = 0;
    uint64_t step = 0;
    uint64_t bytes = 0;
    double stall_seconds = 0;  ///< For how long the save has kept the rank from its work.
  };
  /// Takes in a part. A part that comes again changes nothing. Returns whether the round is
  /// complete now. Errors: kInvalidUsage if ranks save different steps in one round, after which no
  /// round becomes complete any more; kInvalidArgument for a round that the rank cannot be in.
  Result<bool> Take(const Part& part);

  /// The newest complete round; 0: none.
  uint64_t complete() const { return complete_; }
  /// The step, and the bytes of all parts together, of the round that was completed last.
  uint64_t step() const { return step_; }
  uint64_t bytes() const { return bytes_; }
  /// The longest stall of a rank in it, in seconds.
  double stall_seconds() const { return stall_seconds_; }
  /// Why no further round becomes complete; ok: one may.
  const Status& failure() const { return failure_; }

 private:
  std::vector<uint64_t> newest_of_rank_;
  uint64_t complete_ = 0;
  uint64_t step_ = 0;
  uint64_t bytes_ = 0;
  double stall_seconds_ = 0;
  // The open round.
  size_t parts_ = 0;
  int first_rank_ = 0;
  uint64_t open_step_ = 0;
  uint64_t open_bytes_ = 0;
  double open_stall_seconds_ = 0;
  Status failure_;
};

}  // namespace harmonaize::daemon
