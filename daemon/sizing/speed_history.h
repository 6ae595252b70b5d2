#pragma once

#include <cstdint>
#include <vector>

#include "daemon/cluster/messages/sizing.h"

namespace harmonaize::daemon {

/// What the steps of one job took with each of the last numbers of ranks that it has had. A plain
/// value.
class SpeedHistory {
 public:
  /// Takes in what steps take now. Values that cannot be are not taken.
  void Take(const SpeedView& now);
  /// One for each number of ranks, the newest last: kMostSpeedsTold at most.
  const std::vector<SpeedView>& seen() const { return seen_; }

 private:
  std::vector<SpeedView> seen_;
};

}  // namespace harmonaize::daemon
