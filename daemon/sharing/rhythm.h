#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace harmonaize::daemon {

/// Learns how a communicator computes and sends by turns, as its operations begin and end here.
/// Operations that follow each other closely are one burst.
///
/// Thread: one. Time is passed in.
class Rhythm {
 public:
  /// Notes that an operation begins; others may be under way.
  void Begin(uint64_t now_ns);
  /// Notes that an operation is ready which would begin a burst, but waits for other jobs: that is
  /// no pause.
  void Wait(uint64_t now_ns) { ready_ns_ = now_ns; }
  /// Notes that an operation has ended.
  void End(uint64_t now_ns);

  /// Returns whether an operation that begins now is a burst's first.
  bool BeginsBurst(uint64_t now_ns) const;
  /// Returns whether nothing is under way, and the burst has had as many operations as the others.
  bool burst_seems_over() const;
  /// Number of bursts that have begun.
  uint64_t bursts() const { return bursts_; }

  struct Beat {
    uint64_t bursts = 0;  ///< Bursts that have begun, the last one among them.
    double burst_seconds = 0;
    double pause_seconds = 0;      ///< Pause after a burst.
    double iteration_seconds = 0;  ///< From one burst to the next, with its wait for others.
    double begun_seconds = 0;      ///< Time since the last burst began.
  };
  /// Returns nullopt before some bursts have passed, and while pauses differ widely.
  std::optional<Beat> Of(uint64_t now_ns) const;

 private:
  /// A burst, and the pause after it.
  struct Past {
    uint64_t burst_ns = 0;
    uint64_t pause_ns = 0;
    uint64_t iteration_ns = 0;
    uint64_t operations = 0;
  };
  /// Number of bursts by which the rhythm is judged.
  static constexpr size_t kRemembered = 5;

  uint64_t MiddleOf(uint64_t Past::*what) const;

  int under_way_ = 0;
  uint64_t bursts_ = 0;
  uint64_t ready_ns_ = 0;    // when a burst would have begun that waits; 0: none does
  uint64_t begun_ns_ = 0;    // when the burst began
  uint64_t ended_ns_ = 0;    // when its last operation so far ended
  uint64_t operations_ = 0;  // operations of the burst
  std::array<Past, kRemembered> past_{};
};

}  // namespace harmonaize::daemon
