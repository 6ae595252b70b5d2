#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace harmonaize::daemon {

/// Where the two ends of a round trip are during a burst of samples.
struct ProbePlaces {
  size_t own = 0;     ///< Of kOwnProbePlaces.
  uint8_t other = 0;  ///< Of kOtherProbePlaces: the first byte of each message tells it.
};
inline constexpr size_t kOwnProbePlaces = 2;
inline constexpr size_t kOtherProbePlaces = 4;

/// Each place of the one with each of the other, after as many bursts as there are such: the same
/// for all pairs, so that none is nearer for where its ends happened to be.
ProbePlaces ProbePlacesOf(int burst);

/// Which processors the two ends of a round trip run on makes as much of a difference as a switch
/// does: how near they are to the network card or, in a laboratory, to each other. So ends move
/// between samples, and the low percentile that inference looks at is that of the best place. For
/// the calling thread, which may run where it could before once this goes.
class VisitProcessors {
 public:
  VisitProcessors();
  ~VisitProcessors();
  VisitProcessors(const VisitProcessors&) = delete;
  VisitProcessors& operator=(const VisitProcessors&) = delete;

  /// Goes to processor `number` of `count`, spread over those that the thread may use; from 0 on,
  /// and around again.
  void Go(size_t number, size_t count);

 private:
  cpu_set_t allowed_;
  std::vector<int> processors_;
};

}  // namespace harmonaize::daemon
