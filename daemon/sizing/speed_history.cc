#include "daemon/sizing/speed_history.h"

namespace harmonaize::daemon {

void SpeedHistory::Take(const SpeedView& now) {
  if (!IsSound(now)) return;
  std::erase_if(seen_, [&](const SpeedView& one) { return one.ranks == now.ranks; });
  if (seen_.size() >= kMostSpeedsTold) seen_.erase(seen_.begin());
  seen_.push_back(now);
}

}  // namespace harmonaize::daemon
