#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace harmonaize::daemon {

/// Where the two ends of a round trip are during a burst of samples.
struct ProbePlaces {
  size_t own = 0;     ///< Below kOwnProbePlaces.
  uint8_t other = 0;  ///< Below kOtherProbePlaces: the first byte of each message tells it.
};
/// Number of places of the end that sends.
inline constexpr size_t kOwnProbePlaces = 2;
/// Number of places of the end that answers.
inline constexpr size_t kOtherProbePlaces = 4;

/// Returns the places for a burst. After as many bursts as there are pairs of places, each place of
/// one end was combined with each of the other. The order is the same for all pairs of NICs, so
/// that none seems nearer for where its ends happened to be.
ProbePlaces ProbePlacesOf(int burst);

/// Moves the calling thread between processors. Which processors the two ends of a round trip run
/// on makes as much of a difference as a switch does: how near they are to the network card or, in
/// a laboratory, to each other. So ends move between samples, and the low percentile that inference
/// looks at is that of the best place. The thread may run where it could before once this object
/// ends. Thread: one.
class VisitProcessors {
 public:
  VisitProcessors();
  ~VisitProcessors();
  VisitProcessors(const VisitProcessors&) = delete;
  VisitProcessors& operator=(const VisitProcessors&) = delete;

  /// Moves the thread to processor `number`, from 0 on and around again, of `count` that are spread
  /// over those it may use.
  void Go(size_t number, size_t count);

 private:
  cpu_set_t allowed_;
  std::vector<int> processors_;
};

}  // namespace harmonaize::daemon
