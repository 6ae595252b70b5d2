#include "perf/checkpoints/failure_trace.h"

#include <cmath>

#include "perf/elasticity/random.h"

namespace harmonaize::checkpoints {

// The scale makes the mean of the Weibull distribution the mean time between failures.
std::vector<Failure> MakeFailures(const FailureOptions& options) {
  elasticity::Random random(options.seed);
  const double scale = options.MtbfSeconds() / std::tgamma(1 + 1 / options.shape);
  std::vector<Failure> failures;
  double at = 0;
  while (true) {
    at += scale * std::pow(-std::log(1 - random.Uniform(0, 1)), 1 / options.shape);
    if (at >= options.seconds) return failures;
    const double kind = random.Uniform(0, 1);
    Failure failure{.at_seconds = at};
    failure.is_rank = kind < options.rank_part;
    const double announced = (kind - options.rank_part) / options.announced_part;
    if (announced >= 0 && announced < 0.5) failure.notice_seconds = options.short_notice_seconds;
    if (announced >= 0.5 && announced < 1) failure.notice_seconds = options.long_notice_seconds;
    failures.push_back(failure);
  }
}

}  // namespace harmonaize::checkpoints
