#pragma once

#include <cstdint>
#include <functional>

#include "src/ipc/tuning_segment.h"

namespace harmonaize {

// How all ranks come to choose by another table from the same call on, while calls go on
// (daemon/plans/plan_switch.h has the agreement between hosts):
//
//     rank, at call n                          daemon
//     calls = n + 1                            held_from = h
//     while (held_from <= n) wait              p = max(h, calls of all ranks here): promises that
//     n >= begins[newest] ?                        no call from p on goes by the old table
//       the newest table : the other one       ... all daemons promise, the home settles on s ...
//                                              tables[1 - newest] = the new one, begins = s
//                                              newest = 1 - newest, held_from = kNoCall
//
// `calls` and `held_from` are sequentially consistent: a rank that the daemon has not seen at call
// n or later finds the hold. So no rank is past p without the daemon's word, and s is the largest
// of all p. A table is overwritten only when all ranks here are past the first call of the other
// one. The rank's release of `calls` then comes after its last look at the table, and the daemon's
// release of `newest` and `held_from` before the next one.

/// A rank's side. Thread: one at a time, as NCCL asks.
class TuningReader {
 public:
  /// Both are mapped for as long as the reader lives. The position is zeroed.
  TuningReader(const TuningSegment* segment, TuningPosition* position)
      : segment_(segment), position_(position) {}

  /// Begins the next call and returns the table that it goes by. `function` and `bytes` are what
  /// NCCL asks about. Where the daemon is about to settle on another table, this waits: for
  /// milliseconds, and for kLongestHoldNanoseconds at most, or until `daemon_lives` says no, which
  /// is asked now and then. After a wait in vain the reader stays with the table that it has.
  const TuningTable& Next(int function, uint64_t bytes, const std::function<bool()>& daemon_lives);

  uint64_t calls() const { return calls_; }

  /// The longest wait, in nanoseconds. Daemons settle within milliseconds, and a daemon that hears
  /// nothing of another one calls the change off after a second (kLongestRoundNanoseconds).
  static constexpr uint64_t kLongestHoldNanoseconds = 5'000'000'000;

 private:
  void NoteCall(int function, uint64_t bytes);
  bool Wait(uint64_t call, const std::function<bool()>& daemon_lives);
  const TuningTable& TableOf(uint64_t call) const;

  const TuningSegment* const segment_;
  TuningPosition* const position_;
  uint64_t calls_ = 0;
  uint32_t digest_ = 0;
  const TuningTable* stays_with_ = nullptr;  ///< After a wait in vain.
};

/// The daemon's side of a segment. Thread: one.
class TuningWriter {
 public:
  /// Begins with `table` from the first call on. Requires: nobody has the segment yet.
  TuningWriter(TuningSegment* segment, const TuningTable& table);

  /// Has calls from this one on wait.
  void HoldFrom(uint64_t call);
  /// Has calls from this one on go by `table`, and lets those go on that wait. Requires: all ranks
  /// are past begins().
  void Commit(const TuningTable& table, uint64_t from);
  /// Lets the calls go on that wait; nothing has changed.
  void Release();

  /// The first call of the newest table.
  uint64_t begins() const { return begins_; }

 private:
  TuningSegment* const segment_;
  uint32_t newest_ = 0;
  uint64_t begins_ = 0;
};

}  // namespace harmonaize
