#include "daemon/sizing/speed_history.h"

#include <cmath>

namespace harmonaize::daemon {

void SpeedHistory::Take(const SpeedView& now) {
  const bool is_sound = now.ranks > 0 && std::isfinite(now.samples) && now.samples > 0 &&
                        std::isfinite(now.step_seconds) && now.step_seconds > 0 &&
                        now.exchange_seconds >= 0 && now.exchange_seconds <= now.step_seconds;
  if (!is_sound) return;
  std::erase_if(seen_, [&](const SpeedView& one) { return one.ranks == now.ranks; });
  if (seen_.size() >= kMostSpeedsTold) seen_.erase(seen_.begin());
  seen_.push_back(now);
}

}  // namespace harmonaize::daemon
