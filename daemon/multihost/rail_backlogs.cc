#include "daemon/multihost/rail_backlogs.h"

#include <algorithm>

namespace harmonaize::daemon {
namespace {

/// How much one part changes what is known of its rail's rate.
constexpr double kNewest = 0.25;

}  // namespace

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
  // All that the rail had when the part came to it was ahead of it, about as much as it has now.
  const double rate =
      static_cast<double>(one.bytes) / static_cast<double>(std::max<uint64_t>(took_ns, 1));
  one.bytes_per_ns += kNewest * (rate - one.bytes_per_ns);
  one.bytes -= bytes;
  if (took_ns > kSlowNs) {
    one.allowance = std::max(kLeastAllowance, one.allowance - one.allowance / 4);
  } else if (took_ns < kQuickNs && full) {
    one.allowance = std::min(kMostAllowance, one.allowance + bytes);
  }
}

std::optional<size_t> RailBacklogs::Fastest() const {
  const auto most = std::max_element(
      rails_.begin(), rails_.end(),
      [](const Rail& one, const Rail& other) { return one.bytes_per_ns < other.bytes_per_ns; });
  if (most == rails_.end() || most->bytes_per_ns == 0) return std::nullopt;
  return static_cast<size_t>(most - rails_.begin());
}

}  // namespace harmonaize::daemon
