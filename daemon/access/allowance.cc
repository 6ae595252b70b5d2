#include "daemon/access/allowance.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// A tenant may use one part in this many of one processor's time.
constexpr int64_t kShareDivisor = 4;

/// Most unused time that a quiet tenant keeps and may use at once, in nanoseconds.
constexpr int64_t kMostNanoseconds = 250'000'000;

/// Longest rest, in nanoseconds: the daemon waits for the resting thread when it ends.
constexpr int64_t kMostRestNanoseconds = 10'000'000;

}  // namespace

Allowance::Allowance() : left_ns_(kMostNanoseconds), refilled_at_ns_(MonotonicNanoseconds()) {}

void Allowance::Refill() {
  const uint64_t now_ns = MonotonicNanoseconds();
  const auto gained = static_cast<int64_t>(now_ns - refilled_at_ns_) / kShareDivisor;
  left_ns_ = std::min(kMostNanoseconds, left_ns_ + gained);
  left_ns_ -= elsewhere_ns_.exchange(0, std::memory_order_relaxed);
  refilled_at_ns_ = now_ns;
}

bool Allowance::spent() {
  Refill();
  return left_ns_ <= 0;
}

void Allowance::RestIfSpent() {
  if (!spent()) return;
  const int64_t rest_ns = std::min(kMostRestNanoseconds, -left_ns_ * kShareDivisor);
  std::this_thread::sleep_for(std::chrono::nanoseconds(rest_ns));
}

}  // namespace harmonaize::daemon
