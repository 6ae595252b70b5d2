#pragma once

#include <string>

#include "cli/json_view.h"

namespace harmonaize {

// What counts have become between two documents of a daemon.

/// How much a count has grown; negative where it is not told. What was not there before has begun
/// with nothing.
double Growth(const Json& before, const Json& after, const char* key);
/// "1.2 GB/s", of a count of bytes; kUnknown where it is not told.
std::string RateOf(const Json& before, const Json& after, const char* key, double seconds);
/// "75%"; kUnknown where either is negative.
std::string ShareOf(double part, double whole);

}  // namespace harmonaize
