#include "src/transport/link/arrival_delay.h"

#include <algorithm>

namespace harmonaize::transport {

void ArrivalDelay::Note(uint64_t sent_ns, uint64_t now_ns) {
  const auto delay = static_cast<int64_t>(now_ns - sent_ns);
  if (least_ != kNone) {
    const auto drift = static_cast<int64_t>((now_ns - drifted_ns_) * kDriftPpm / 1'000'000);
    // Fractions of a nanosecond add up, and count once they are a whole one.
    if (drift > 0) {
      least_ += drift;
      drifted_ns_ = now_ns;
    }
  } else {
    drifted_ns_ = now_ns;
  }
  least_ = std::min(least_, delay);
  const uint64_t period = now_ns / kPeriodNs;
  if (period != period_) {
    least_last_ = period == period_ + 1 ? least_now_ : kNone;
    least_now_ = kNone;
    period_ = period;
  }
  least_now_ = std::min(least_now_, delay);
}

std::optional<uint64_t> ArrivalDelay::QueueNs(uint64_t now_ns) const {
  const uint64_t period = now_ns / kPeriodNs;
  const int64_t least = period == period_       ? least_last_
                        : period == period_ + 1 ? least_now_
                                                : kNone;
  if (least == kNone) return {};
  return static_cast<uint64_t>(std::max<int64_t>(least - least_, 0));
}

}  // namespace harmonaize::transport
