#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "daemon/elasticity/elastic_world.h"

namespace harmonaize::daemon {

/// The moment at which worlds are looked at, in seconds since 1970.
inline constexpr double kWorldNow = 1e9;

/// What the steps of a job take: the computation of one rank alone, what it has besides, and the
/// exchange's bytes and hops (SpeedModel), in seconds.
struct TrueSteps {
  double computation = 1;
  double fixed = 0;
  double bytes = 0;
  double hop = 0;

  /// Returns what is seen of steps with so many ranks, of as many samples whatever their number.
  SpeedSample Seen(int32_t ranks) const {
    const double exchange = bytes * (ranks - 1) / ranks + hop * (ranks - 1);
    return {.ranks = ranks,
            .samples = 1,
            .step_seconds = computation / ranks + fixed + exchange,
            .exchange_seconds = exchange};
  }
};

/// Returns the model of a job of which steps with these numbers of ranks were seen.
inline SpeedModel ModelOf(const TrueSteps& steps, std::initializer_list<int32_t> sizes) {
  std::vector<SpeedSample> seen;
  for (const int32_t size : sizes) seen.push_back(steps.Seen(size));
  return *SpeedModel::Fit(seen);
}

/// Returns a job that scales as these steps do, and runs for long.
inline ElasticJob AJob(uint64_t id, std::vector<int32_t> ranks, const TrueSteps& steps = {}) {
  return {.id = id,
          .ranks = std::move(ranks),
          .bounds = {.least = 1, .most = 64, .step = 1},
          .samples_left = 1e6,
          .speed = ModelOf(steps, {1, 2, 4, 8})};
}

}  // namespace harmonaize::daemon
