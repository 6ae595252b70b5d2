#pragma once

#include "perf/elasticity/cluster.h"

namespace harmonaize::elasticity {

/// What is told of an outcome. Times are of jobs from their arrival to their end, in seconds.
struct Figures {
  double mean_seconds = 0;
  double median_seconds = 0;
  double p99_seconds = 0;
  double mean_wait_seconds = 0;
  double makespan_seconds = 0;  ///< Until the last job has ended.
  double use = 0;               ///< Outcome::use.
  double rank_seconds = 0;      ///< Of all jobs.
  double changes = 0;           ///< Of sizes, of all jobs.
  double offers = 0;
  double declined = 0;
};

/// Requires: there is a job.
Figures FiguresOf(const Outcome& outcome);

}  // namespace harmonaize::elasticity
