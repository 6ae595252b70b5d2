#include "daemon/multihost/rail_backlogs.h"

#include <algorithm>

namespace harmonaize::daemon {

bool RailBacklogs::Admits(size_t rail) const {
  return rail >= rails_.size() || rails_[rail].bytes < rails_[rail].allowance;
}

void RailBacklogs::Add(size_t rail, size_t bytes) {
  if (rail >= rails_.size()) rails_.resize(rail + 1);
  rails_[rail].bytes += bytes;
}

void RailBacklogs::Remove(size_t rail, size_t bytes, uint64_t took_ns) {
  Rail& one = rails_[rail];
  const bool full = one.bytes >= one.allowance;
  one.bytes -= bytes;
  if (took_ns > kSlowNs) {
    one.allowance = std::max(kLeastAllowance, one.allowance - one.allowance / 4);
  } else if (took_ns < kQuickNs && full) {
    one.allowance = std::min(kMostAllowance, one.allowance + bytes);
  }
}

}  // namespace harmonaize::daemon
