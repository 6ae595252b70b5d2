#pragma once

#include <sched.h>

#include <cstddef>
#include <vector>

namespace harmonaize::daemon {

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
  /// How many it may use.
  size_t size() const { return processors_.size(); }

 private:
  cpu_set_t allowed_;
  std::vector<int> processors_;
};

}  // namespace harmonaize::daemon
