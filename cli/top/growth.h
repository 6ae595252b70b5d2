#pragma once

#include <string>

#include "cli/json_view.h"

namespace harmonaize {

// Changes of counts between two documents of a daemon.

/// Returns how much a count has grown; negative if it is missing. A count missing in the first
/// document began at 0.
double Growth(const Json& before, const Json& after, const char* key);
/// Returns the rate of a count of bytes, such as "1.2 GB/s"; kMissing if it is missing.
std::string RateOf(const Json& before, const Json& after, const char* key, double seconds);
/// Returns a percentage, such as "75%"; kMissing where either is negative.
std::string ShareOf(double part, double whole);

}  // namespace harmonaize
