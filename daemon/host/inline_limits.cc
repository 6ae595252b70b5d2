#include "daemon/host/inline_limits.h"

namespace harmonaize::daemon {

InlineLimits InlineLimitsFor(const InlineConfig& config, const InlineChoice& choice, int ranks) {
  const auto limit = [&](int64_t configured, Collective collective, bool registered) {
    return configured >= 0 ? static_cast<uint64_t>(configured)
                           : choice.Limit(collective, ranks, registered);
  };
  InlineLimits limits;
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    limits.registered[i] = limit(config.registered_bytes, collective, true);
    limits.heap[i] = limit(config.heap_bytes, collective, false);
  }
  limits.stream = static_cast<uint64_t>(config.stream_bytes);
  return limits;
}

}  // namespace harmonaize::daemon
