#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// Runs a schedule on random integers (the operator is addition) in one random legal order, and
/// says what went wrong, if anything did: the oracle that Check is compared with, sharing none of
/// its code. Legal is what an executor may do at its worst:
///
/// - a step starts once what it is `after` is done, reads at its start, and writes at its end, with
///   other steps starting and ending in between;
/// - the messages of a direction and path start in order on both sides, and arrive when they like;
/// - a send ends at once, or (as the dice decide for the whole run) when its receive has started;
/// - if schedule.in_place, a random subset of the ranks is in place.
std::optional<std::string> RunOnce(const Schedule& schedule, std::mt19937_64& random);

/// RunOnce, `runs` times; the first thing that went wrong.
std::optional<std::string> RunOften(const Schedule& schedule, int runs, uint64_t seed);

}  // namespace harmonaize
