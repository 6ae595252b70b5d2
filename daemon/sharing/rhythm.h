#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace harmonaize::daemon {

/// How a communicator computes and sends by turns, as its operations begin and end here: those that
/// follow each other closely are one burst.
///
/// For one thread; time is passed in.
class Rhythm {
 public:
  /// An operation begins, while others may be under way.
  void Begin(uint64_t now_ns);
  /// An operation is ready, and would begin a burst, but waits for others: that is no pause.
  void Wait(uint64_t now_ns) { ready_ns_ = now_ns; }
  /// One of those that have begun has ended.
  void End(uint64_t now_ns);

  /// Whether an operation that begins now is a burst's first.
  bool BeginsBurst(uint64_t now_ns) const;
  /// Whether nothing is under way, and the burst has had as many operations as the others.
  bool burst_seems_over() const;
  /// That have begun.
  uint64_t bursts() const { return bursts_; }

  struct Beat {
    uint64_t bursts = 0;  ///< That have begun, the last one among them.
    double burst_seconds = 0;
    double pause_seconds = 0;      ///< After it.
    double iteration_seconds = 0;  ///< From one to the next, with what that waited for others.
    double begun_seconds = 0;      ///< Since the last one began.
  };
  /// Nothing before some bursts have passed, and while pauses differ widely.
  std::optional<Beat> Of(uint64_t now_ns) const;

 private:
  /// A burst, and the pause after it.
  struct Past {
    uint64_t burst_ns = 0;
    uint64_t pause_ns = 0;
    uint64_t iteration_ns = 0;
    uint64_t operations = 0;
  };
  /// Of what counts as a rhythm's.
  static constexpr size_t kRemembered = 5;

  uint64_t MiddleOf(uint64_t Past::*what) const;

  int under_way_ = 0;
  uint64_t bursts_ = 0;
  uint64_t ready_ns_ = 0;    // when a burst would have begun that waits; 0: none does
  uint64_t begun_ns_ = 0;    // of the burst
  uint64_t ended_ns_ = 0;    // of its last operation so far
  uint64_t operations_ = 0;  // of it
  std::array<Past, kRemembered> past_{};
};

}  // namespace harmonaize::daemon
