#include "daemon/sharing/turn_gate.h"

namespace harmonaize::daemon {

void TurnGate::Begin(uint64_t now_ns) {
  rhythm_.Begin(now_ns);
  // An operation may also begin that has not waited for its turn: sends and receives do not.
  if (state_ != State::kFree) state_ = State::kSends;
}

TurnGate::Answer TurnGate::MayBegin(uint64_t now_ns, double longest_wait_seconds) {
  if (state_ == State::kWaits && now_ns >= wait_until_ns_) state_ = State::kGranted;
  if (state_ == State::kWaits) return Answer::kWait;
  const bool asks =
      longest_wait_seconds > 0 && state_ != State::kGranted && rhythm_.BeginsBurst(now_ns);
  if (!asks) return Answer::kGo;
  state_ = State::kWaits;
  rhythm_.Wait(now_ns);
  burst_ = rhythm_.bursts() + 1;
  wait_until_ns_ = now_ns + static_cast<uint64_t>(longest_wait_seconds * 1e9);
  return Answer::kAsk;
}

bool TurnGate::Grant(uint64_t burst) {
  if (state_ != State::kWaits || burst != burst_) return false;
  state_ = State::kGranted;
  return true;
}

bool TurnGate::TakeEnded() {
  if (state_ != State::kSends || !rhythm_.burst_seems_over()) return false;
  state_ = State::kFree;
  return true;
}

}  // namespace harmonaize::daemon
