#include "daemon/sharing/rhythm.h"

#include <algorithm>
#include <cmath>

namespace harmonaize::daemon {
namespace {

/// A rest of one part in this many of the longest recent pause begins a new burst.
constexpr uint64_t kPartOfPause = 4;
/// Relative difference from the middle pause up to which a pause is alike; all but one have to be
/// alike.
constexpr double kAlike = 0.2;

}  // namespace

void Rhythm::Begin(uint64_t now_ns) {
  if (BeginsBurst(now_ns)) {
    if (bursts_ > 0) {
      const uint64_t ready_ns = ready_ns_ != 0 ? ready_ns_ : now_ns;
      past_[bursts_ % kRemembered] = {ended_ns_ - begun_ns_, ready_ns - ended_ns_,
                                      now_ns - begun_ns_, operations_};
    }
    ++bursts_;
    begun_ns_ = now_ns;
    operations_ = 0;
  }
  ready_ns_ = 0;
  ++operations_;
  ++under_way_;
}

void Rhythm::End(uint64_t now_ns) {
  --under_way_;
  ended_ns_ = now_ns;
}

bool Rhythm::BeginsBurst(uint64_t now_ns) const {
  if (under_way_ > 0) return false;
  if (bursts_ == 0) return true;
  uint64_t longest = 0;
  for (const Past& past : past_) longest = std::max(longest, past.pause_ns);
  return now_ns - ended_ns_ >= longest / kPartOfPause;
}

bool Rhythm::burst_seems_over() const {
  return under_way_ == 0 && operations_ >= MiddleOf(&Past::operations);
}

uint64_t Rhythm::MiddleOf(uint64_t Past::*what) const {
  std::array<uint64_t, kRemembered> values{};
  std::transform(past_.begin(), past_.end(), values.begin(),
                 [what](const Past& past) { return past.*what; });
  std::nth_element(values.begin(), values.begin() + kRemembered / 2, values.end());
  return values[kRemembered / 2];
}

std::optional<Rhythm::Beat> Rhythm::Of(uint64_t now_ns) const {
  if (bursts_ <= kRemembered) return {};
  const auto pause = static_cast<double>(MiddleOf(&Past::pause_ns));
  const auto alike = std::count_if(past_.begin(), past_.end(), [pause](const Past& past) {
    return std::abs(static_cast<double>(past.pause_ns) - pause) <= kAlike * pause;
  });
  if (static_cast<size_t>(alike) + 1 < kRemembered) return {};
  return Beat{.bursts = bursts_,
              .burst_seconds = static_cast<double>(MiddleOf(&Past::burst_ns)) * 1e-9,
              .pause_seconds = pause * 1e-9,
              .iteration_seconds = static_cast<double>(MiddleOf(&Past::iteration_ns)) * 1e-9,
              .begun_seconds = static_cast<double>(now_ns - begun_ns_) * 1e-9};
}

}  // namespace harmonaize::daemon
