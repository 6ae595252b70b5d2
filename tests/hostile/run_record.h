#pragma once

#include <string>
#include <vector>

#include "tests/hostile/attackers.h"
#include "tests/hostile/daemon_meter.h"
#include "tests/hostile/field.h"

namespace harmonaize::testing {

/// A time in which attackers, or burners, were at work.
struct Phase {
  bool hostile = false;
  double seconds = 0;
  double rounds = 0;  ///< Rounds of the honest job.
  double rate() const { return rounds / seconds; }
  ProcessorTime others;         ///< Processor time that attackers or burners used.
  double daemon_processor = 0;  ///< Seconds of processor time that the daemon used.
  double longest_round = 0;     ///< In seconds, as the two below.
  double longest_visit = 0;
  double longest_status = 0;
  DaemonSample most;  ///< The maximum of each value during the phase.
};

/// Measurements of a hostile run, of all daemons together.
struct RunRecord {
  /// The honest job's rounds per second, over all phases.
  struct Rates {
    double hostile = 0;
    double burners = 0;
  };
  Rates rates() const;
  /// Returns the least memory, in KiB, of the last few times that nobody attacked. Now and then
  /// malloc keeps more for a while; a leak stays. Requires: a hostile phase after the warm-up.
  long LeastMemoryOfLast() const;
  /// Returns all of it, as JSON.
  std::string ToJson(const AttackPlan& plan, const Field& field) const;

  std::vector<Phase> phases;       ///< After the warm-up.
  DaemonSample beginning;          ///< Before the first attack.
  DaemonSample warm;               ///< After the warm-up.
  std::vector<DaemonSample> calm;  ///< After each hostile phase, once the attackers had gone.
  size_t log_bytes = 0;
};

/// Print lines for people, as soon as there is something to report.
void Tell(const Phase& phase);
void TellCalm(const char* when, const DaemonSample& sample);
/// Prints a table of the attacks' counts.
void TellAttacks(const AttackPlan& plan, const Field& field);

}  // namespace harmonaize::testing
