#include "perf/elasticity/figures.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace harmonaize::elasticity {

Figures FiguresOf(const Outcome& outcome) {
  Figures figures = {.use = outcome.use,
                     .offers = static_cast<double>(outcome.offers),
                     .declined = static_cast<double>(outcome.declined)};
  std::vector<double> times;
  for (const JobOutcome& job : outcome.jobs) {
    times.push_back(job.ended_seconds - job.arrived_seconds);
    figures.mean_seconds += times.back();
    figures.mean_wait_seconds += job.began_seconds - job.arrived_seconds;
    figures.makespan_seconds = std::max(figures.makespan_seconds, job.ended_seconds);
    figures.rank_seconds += job.rank_seconds;
    figures.changes += job.changes;
  }
  const auto jobs = static_cast<double>(times.size());
  figures.mean_seconds /= jobs;
  figures.mean_wait_seconds /= jobs;
  std::sort(times.begin(), times.end());
  const auto quantile = [&](double part) {
    return times[static_cast<size_t>(part * (jobs - 1) + 0.5)];
  };
  figures.median_seconds = quantile(0.5);
  figures.p99_seconds = quantile(0.99);
  return figures;
}

}  // namespace harmonaize::elasticity
