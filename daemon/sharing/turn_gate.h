#pragma once

#include <cstdint>

#include "daemon/sharing/rhythm.h"

namespace harmonaize::daemon {

/// At the host of a communicator's rank 0: where its bursts collide with other jobs', has the
/// controller asked before each of them, and lets it wait for the answer, but never for longer than
/// it was told (BurstTurns). It is enough that one host waits: the others wait for what it sends.
///
/// For one thread; time is passed in.
class TurnGate {
 public:
  /// Operations of the communicator begin and end.
  void Begin(uint64_t now_ns);
  void End(uint64_t now_ns) { rhythm_.End(now_ns); }

  enum class Answer {
    kGo,
    kAsk,   ///< The controller, for burst(); then wait.
    kWait,  ///< Until it answers, and no longer than until wait_until_ns().
  };
  /// Whether an operation that is ready may begin, where bursts are to wait for so long at most.
  Answer MayBegin(uint64_t now_ns, double longest_wait_seconds);
  /// The controller's answer. Whether it was waited for.
  bool Grant(uint64_t burst);
  /// The burst under way, or that which waits.
  uint64_t burst() const { return burst_; }
  uint64_t wait_until_ns() const { return wait_until_ns_; }
  bool waits() const { return state_ == State::kWaits; }
  /// Whether the controller is to be told now that the burst it was asked for has ended.
  bool TakeEnded();

  const Rhythm& rhythm() const { return rhythm_; }

 private:
  enum class State { kFree, kWaits, kGranted, kSends };

  Rhythm rhythm_;
  State state_ = State::kFree;  // kFree: nobody was asked
  uint64_t burst_ = 0;
  uint64_t wait_until_ns_ = 0;
};

}  // namespace harmonaize::daemon
