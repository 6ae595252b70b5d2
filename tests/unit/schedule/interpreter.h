#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// Runs a schedule on random integers (the operator is addition) in one random legal order. Returns
/// what went wrong, if anything. It is the oracle that Check is compared with, and shares none of
/// its code. Legal is the worst that an executor may do:
///
/// - a step starts once the steps that it is `after` are done, reads at its start, and writes at
///   its end, with other steps starting and ending in between;
/// - the messages of a direction and path start in order on both sides, and arrive when they like;
/// - a send ends at once, or (decided at random for the whole run) when its receive has started;
/// - if schedule.in_place, a random subset of the ranks is in place.
std::optional<std::string> RunOnce(const Schedule& schedule, std::mt19937_64& random);

/// Calls RunOnce `runs` times. Returns the first thing that went wrong.
std::optional<std::string> RunOften(const Schedule& schedule, int runs, uint64_t seed);

}  // namespace harmonaize
