#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "src/executor/execution.h"

namespace harmonaize {

/// Marks when a thread is inside a copy from or to another process, where that process decides how
/// long it takes. The owner of the executor can then declare the thread lost, and finish its unit
/// in its place; the thread finds out when, and if, the copy returns.
///
/// One word holds it all: 0 outside, the time of entry inside, kAbandoned once lost. Both sides
/// leave the inside by compare-and-swap from the time of entry, so exactly one of them has the
/// unit.
class ForeignCall {
 public:
  struct Lost {
    Execution* execution = nullptr;
    FaultyBuffer buffer;
    uint64_t nanoseconds = 0;
  };

  /// The thread: the unit that it runs from now on is of `execution`.
  void SetExecution(Execution* execution) { execution_ = execution; }

  /// The thread, before a copy from or to `buffer`; `now` is MonotonicNanoseconds().
  void Enter(FaultyBuffer buffer, uint64_t now) {
    buffer_ = buffer;
    // Release: who abandons the thread reads which unit it had.
    entered_.store(now, std::memory_order_release);
  }

  /// The thread, after the copy. False: it is abandoned, its unit is no longer its own, and it may
  /// touch nothing but what it owns itself.
  bool Leave() {
    uint64_t entered = entered_.load(std::memory_order_relaxed);
    // Relaxed: nothing is handed over when the thread keeps its unit, and if it does not, it reads
    // nothing that the owner wrote.
    return entered != kAbandoned &&
           entered_.compare_exchange_strong(entered, 0, std::memory_order_relaxed);
  }

  /// The owner: abandons the thread if it has been inside one copy for at least `nanoseconds`.
  std::optional<Lost> AbandonIfStuck(uint64_t nanoseconds, uint64_t now) {
    uint64_t entered = entered_.load(std::memory_order_relaxed);
    if (entered == 0 || entered == kAbandoned || now < entered || now - entered < nanoseconds) {
      return std::nullopt;
    }
    // Acquire: see Enter. Should the thread have left and entered again at the same nanosecond, the
    // swap is with its latest entry, and reads what belongs to that one.
    if (!entered_.compare_exchange_strong(entered, kAbandoned, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
      return std::nullopt;
    }
    return Lost{execution_, buffer_, now - entered};
  }

 private:
  static constexpr uint64_t kAbandoned = ~uint64_t{0};

  alignas(64) std::atomic<uint64_t> entered_{0};
  Execution* execution_ = nullptr;
  FaultyBuffer buffer_;
};

}  // namespace harmonaize
