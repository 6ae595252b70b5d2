#include "src/store/pace.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "src/base/clock.h"

namespace harmonaize::store {
namespace {

/// Longest sleep between two questions whether to go on, in nanoseconds: a person's blink.
constexpr uint64_t kMostSleepNs = 100'000'000;
/// Time that may be saved up while nothing is written, in nanoseconds: a twentieth of a second's
/// bytes may come at once.
constexpr uint64_t kMostSavedNs = 50'000'000;

}  // namespace

Pace::Pace(uint64_t most_bytes_per_second, std::function<Status()> go_on)
    : most_bytes_per_second_(most_bytes_per_second), go_on_(std::move(go_on)) {}

Status Pace::Before(uint64_t bytes) {
  if (most_bytes_per_second_ == 0) return go_on_();
  uint64_t now = MonotonicNanoseconds();
  free_at_ns_ = std::max(free_at_ns_, now - std::min(now, kMostSavedNs));
  const double seconds = static_cast<double>(bytes) / static_cast<double>(most_bytes_per_second_);
  // An hour for one buffer: a rate that is no rate.
  free_at_ns_ += static_cast<uint64_t>(std::min(seconds, 3600.0) * 1e9);
  while (now < free_at_ns_) {
    HZ_RETURN_IF_ERROR(go_on_());
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::min(free_at_ns_ - now, kMostSleepNs)));
    now = MonotonicNanoseconds();
  }
  return go_on_();
}

}  // namespace harmonaize::store
