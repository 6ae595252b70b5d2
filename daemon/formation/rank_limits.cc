#include "daemon/formation/rank_limits.h"

namespace harmonaize::daemon {

Status CheckRanks(int ranks, int rank, int first_rank) {
  if (ranks < 1 || ranks > kMaxRanks) {
    return InvalidArgument("a communicator of {} ranks: the number must be 1 to {}", ranks,
                           kMaxRanks);
  }
  if (rank < first_rank || rank >= ranks) {
    return InvalidArgument("rank {} is out of range: it must be {} to {}", rank, first_rank,
                           ranks - 1);
  }
  return Status::Ok();
}

Status CheckRanksOnHost(size_t ranks) {
  if (ranks <= static_cast<size_t>(kMaxRanksOnHost)) return Status::Ok();
  return InvalidUsage(
      "{} ranks of one communicator are on one host, where at most {} can be: use more hosts, or "
      "fewer ranks",
      ranks, kMaxRanksOnHost);
}

}  // namespace harmonaize::daemon
