#pragma once

#include <cstdint>

#include "daemon/sharing/rhythm.h"

namespace harmonaize::daemon {

/// At the host of a communicator's rank 0: if its bursts collide with other jobs', has the
/// controller asked before each of them, and lets the burst wait for the answer, but never for
/// longer than the controller said (BurstTurns). It is enough that one host waits: the others wait
/// for what it sends.
///
/// Thread: one. Time is passed in.
class TurnGate {
 public:
  /// Notes that an operation of the communicator begins.
  void Begin(uint64_t now_ns);
  /// Notes that an operation of the communicator ends.
  void End(uint64_t now_ns) { rhythm_.End(now_ns); }

  enum class Answer {
    kGo,
    kAsk,   ///< Ask the controller for burst(), then wait.
    kWait,  ///< Wait until it answers, and no longer than until wait_until_ns().
  };
  /// Returns whether an operation that is ready may begin. A burst waits for `longest_wait_seconds`
  /// at most.
  Answer MayBegin(uint64_t now_ns, double longest_wait_seconds);
  /// Takes in the controller's answer. Returns whether it was waited for.
  bool Grant(uint64_t burst);
  /// The burst that is under way, or waits.
  uint64_t burst() const { return burst_; }
  uint64_t wait_until_ns() const { return wait_until_ns_; }
  bool waits() const { return state_ == State::kWaits; }
  /// Returns whether the controller is to be told now that the burst it was asked for has ended.
  bool TakeEnded();

  const Rhythm& rhythm() const { return rhythm_; }

 private:
  enum class State { kFree, kWaits, kGranted, kSends };

  Rhythm rhythm_;
  State state_ = State::kFree;  // kFree: the controller was not asked
  uint64_t burst_ = 0;
  uint64_t wait_until_ns_ = 0;
};

}  // namespace harmonaize::daemon
