#include "daemon/checkpoint/save_rounds.h"

#include <algorithm>

#include "src/base/saturating.h"

namespace harmonaize::daemon {

Result<bool> SaveRounds::Take(const Part& part) {
  HZ_RETURN_IF_ERROR(failure_);
  if (part.rank < 0 || static_cast<size_t>(part.rank) >= newest_of_rank_.size()) {
    return InvalidArgument("a part of rank {}, which does not exist", part.rank);
  }
  uint64_t& newest = newest_of_rank_[static_cast<size_t>(part.rank)];
  if (part.round <= newest) return false;
  if (part.round != complete_ + 1) {
    return InvalidArgument("a part of round {}, and the rounds up to {} are complete", part.round,
                           complete_);
  }
  if (parts_ == 0) {
    first_rank_ = part.rank;
    open_step_ = part.step;
    open_bytes_ = 0;
    open_stall_seconds_ = 0;
  } else if (part.step != open_step_) {
    failure_ = InvalidUsage(
        "ranks save different steps at the same time: rank {} saves step {}, rank {} step {}",
        first_rank_, open_step_, part.rank, part.step);
    return failure_;
  }
  newest = part.round;
  open_bytes_ = AddUpTo(open_bytes_, part.bytes);
  open_stall_seconds_ = std::max(open_stall_seconds_, part.stall_seconds);
  if (++parts_ < newest_of_rank_.size()) return false;
  complete_ = part.round;
  step_ = open_step_;
  bytes_ = open_bytes_;
  stall_seconds_ = open_stall_seconds_;
  parts_ = 0;
  return true;
}

}  // namespace harmonaize::daemon
