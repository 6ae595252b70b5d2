#include "daemon/formation/late_rounds.h"

#include <cstddef>

#include "daemon/communicator/communicator_registry.h"
#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Time, in nanoseconds, after which a call has no further communicator report. A tenant may have
/// thousands of communicators.
constexpr uint64_t kReportNanoseconds = 5'000'000;

}  // namespace

void LateRounds::Report(uint64_t now_ns, uint64_t late_after_ns) {
  const auto& all = communicators_.all();
  auto next = all.upper_bound(reported_);
  for (size_t i = 0; i < all.size(); ++i, ++next) {
    if (next == all.end()) next = all.begin();
    reported_ = next->first;
    next->second->ReportLate(now_ns, late_after_ns);
    if (MonotonicNanoseconds() >= now_ns + kReportNanoseconds) return;
  }
}

}  // namespace harmonaize::daemon
