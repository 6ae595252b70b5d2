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
  double rounds = 0;  ///< Of the honest job.
  double rate() const { return rounds / seconds; }
  ProcessorTime others;         ///< What attackers or burners used.
  double daemon_processor = 0;  ///< Seconds of the processors' time that the daemon used.
  double longest_round = 0;     ///< In seconds, as the two below.
  double longest_visit = 0;
  double longest_status = 0;
  DaemonSample most;  ///< The most of each, while it went on.
};

/// What was measured in a hostile run.
struct RunRecord {
  /// The honest job's rounds per second, over all phases.
  struct Rates {
    double hostile = 0;
    double burners = 0;
  };
  Rates rates() const;
  /// Requires: a hostile phase after the warm-up. The least memory, in KiB, of the last few times
  /// that nobody attacked. Now and then malloc keeps more for a while; what leaks stays.
  long LeastMemoryOfLast() const;
  /// All of it, as JSON.
  std::string ToJson(const AttackPlan& plan, const Field& field) const;

  std::vector<Phase> phases;       ///< After the warm-up.
  DaemonSample beginning;          ///< Before anybody attacked.
  DaemonSample warm;               ///< After the warm-up.
  std::vector<DaemonSample> calm;  ///< After each hostile phase, when the attackers had gone.
  size_t log_bytes = 0;
};

/// Lines for people, as soon as there is something to tell.
void Tell(const Phase& phase);
void TellCalm(const char* when, const DaemonSample& sample);
/// A table of what the attacks did.
void TellAttacks(const AttackPlan& plan, const Field& field);

}  // namespace harmonaize::testing
