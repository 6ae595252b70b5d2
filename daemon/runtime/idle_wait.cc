#include "daemon/runtime/idle_wait.h"

#include "src/base/clock.h"

namespace harmonaize::daemon {
namespace {

/// Number of looks for which the engine keeps its processor although other threads want it. It is
/// below Pacer's default because a look of the engine is a whole round of checks, with a system
/// call among them.
constexpr int kCrowdedLooks = 1;

}  // namespace

void IdleWait::Begin(uint64_t now_ns, const Circumstances& circumstances) {
  estimate_ = &estimates_[static_cast<size_t>(circumstances.awaited)];
  uint64_t look_ns = estimate_->BeginWait(circumstances.wake_up_ns, circumstances.sleepers);
  if (circumstances.look_us >= 0) look_ns = static_cast<uint64_t>(circumstances.look_us) * 1000;
  since_ns_ = now_ns;
  look_until_ns_ = now_ns + look_ns;
  looks_ = 0;
  slept_ = false;
  pacer_ = Pacer(circumstances.crowded, kCrowdedLooks);
}

bool IdleWait::Look(uint64_t now_ns) {
  if (now_ns >= look_until_ns_) {
    slept_ = true;
    return false;
  }
  pacer_->Pause(now_ns);
  ++looks_;
  return true;
}

void IdleWait::End() {
  if (since_ns_ == 0) return;
  estimate_->EndWait(MonotonicNanoseconds() - since_ns_, slept_);
  since_ns_ = 0;
}

}  // namespace harmonaize::daemon
