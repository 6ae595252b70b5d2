#include "daemon/host/inline_limits.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "src/base/collective.h"
#include "src/requirements/terms.h"

namespace harmonaize::daemon {
namespace {

/// Returns the largest block on a host stream, as far as it does not depend on the collective.
/// Where the ranks fill the processors, the daemon's work takes its time from the callers, so
/// leaving the work to the daemon saves them nothing and costs another copy.
uint64_t StreamLimit(const InlineConfig& config, int processors, int ranks) {
  if (config.stream_bytes >= 0) return static_cast<uint64_t>(config.stream_bytes);
  return ranks < processors ? kOverlappedBytes : std::numeric_limits<uint64_t>::max();
}

}  // namespace

void LimitInline(const CommunicatorTerms& terms, int ranks, InlineLimits* limits) {
  bool any = false;
  for (size_t i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    const std::optional<uint64_t> outside = terms.LeastOutsideInline(collective);
    any |= outside != 0;
    if (!outside.has_value()) continue;
    const uint64_t of_block = OperationBytes(collective, ranks, 1);
    const uint64_t most = *outside == 0 ? 0 : (*outside - 1) / std::max<uint64_t>(of_block, 1);
    limits->registered[i] = std::min(limits->registered[i], most);
    limits->heap[i] = std::min(limits->heap[i], most);
  }
  if (!any) limits->none = true;
}

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
  limits.stream = StreamLimit(config, choice.shape().processors, ranks);
  return limits;
}

}  // namespace harmonaize::daemon
