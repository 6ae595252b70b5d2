#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "src/base/processors.h"

namespace harmonaize {

/// The processors on which the two threads of a measurement run.
struct TwoProcessors {
  int first = 0;
  int second = 0;

  /// Returns the first and the last usable processor, which are far from each other, as ranks may
  /// be. They are two threads of one core only where there is no other choice, and the same where
  /// there is only one processor.
  static TwoProcessors Usable() {
    const std::vector<int> processors = UsableProcessors();
    return {processors.front(), processors.back()};
  }
  bool same() const { return first == second; }
};

/// Pins the calling thread to a processor. If the kernel refuses, it stays where it is, and the
/// measurement is of wherever it runs.
inline void PinCallingThread(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(processor), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

namespace take_turns_internal {

inline constexpr uint64_t kEnd = UINT64_MAX;

/// Waits until `word` has reached `value`, and returns it. A thread on a processor of its own polls
/// for some 20 us before it yields: yielding to another program costs a try much more than that. It
/// does yield then, because the other thread may have lost its processor.
inline uint64_t Await(const std::atomic<uint64_t>& word, uint64_t value, bool same_processor) {
  const int patience = same_processor ? 0 : 20'000;
  uint64_t seen = 0;
  for (int looks = 0; (seen = word.load(std::memory_order_acquire)) < value; ++looks) {
    if (looks >= patience) sched_yield();
  }
  return seen;
}

/// Lets the second thread end before it is joined, even if the first fails.
struct EndTurns {
  std::atomic<uint64_t>& word;
  ~EndTurns() { word.store(kEnd, std::memory_order_release); }
};

}  // namespace take_turns_internal

/// Runs two threads in turn, one on each processor: `second()`, then `first()`, and so on until
/// `first()` returns false. Throws std::system_error when a thread cannot be started.
template <typename First, typename Second>
void TakeTurns(const TwoProcessors& processors, First first, Second second) {
  using namespace take_turns_internal;
  alignas(128) std::atomic<uint64_t> handed{0};
  alignas(128) std::atomic<uint64_t> returned{0};
  const std::jthread partner([&] {
    PinCallingThread(processors.second);
    for (uint64_t turn = 1; Await(handed, turn, processors.same()) != kEnd; ++turn) {
      second();
      returned.store(turn, std::memory_order_release);
    }
  });
  const EndTurns end{handed};
  const std::jthread leader([&] {
    PinCallingThread(processors.first);
    uint64_t turn = 0;
    do {
      handed.store(++turn, std::memory_order_release);
      Await(returned, turn, processors.same());
    } while (first());
  });
}

}  // namespace harmonaize
