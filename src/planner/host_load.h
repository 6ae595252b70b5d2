#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"

namespace harmonaize {

/// Load of a host by other programs while it was measured.
struct HostLoad {
  /// Fraction of the time for which a thread of this process wanted a whole processor and did not
  /// have it, on the processor that was worst off.
  double lost = 0;
  /// Threads of other programs that ran or waited for a processor, on the whole host. For people:
  /// in a container it counts programs that compete for other processors.
  int running = 0;

  /// Returns whether a measurement under this load is worth little.
  bool heavy() const;
};

/// Samples the load of the processors on which hosts are measured (TwoProcessors::Usable), and adds
/// the samples up.
///
/// A look has one thread on each of the two processors read the clock for 5 ms. Jumps of the clock
/// show when the thread did not run, whatever the reason: a thread of another program, a quota of
/// the container, or another virtual machine that has the processor. This needs no file of the
/// kernel, which a container may lack, or which may tell of the whole host. The thread's count of
/// involuntary switches misses stolen time, and its processor time includes it. The pressure in
/// /proc/pressure/cpu is brought up to date every two seconds, too slowly for measurements of a
/// tenth of a second.
class LoadMeter {
 public:
  /// Errors: kSystemError if a thread cannot be started.
  Status Look();

  /// Returns the load of all looks so far.
  HostLoad load() const;

 private:
  struct Time {
    uint64_t wanted_ns = 0;
    uint64_t lost_ns = 0;
  };
  static Time LookAt(int processor);

  Time times_[2];  // of the two processors
  std::vector<int> running_;
};

}  // namespace harmonaize
