#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Parses a rate as networks state it into bytes a second: a number and one of bit, kbit, Mbit,
/// Gbit and Tbit (decimal, any case, "/s" may follow): "500Mbit", "2.5 Gbit/s". Errors:
/// kInvalidArgument for anything else, and outside of 1 kbit to 100 Tbit.
Result<double> ParseLinkRate(std::string_view text);

/// Formats bytes a second as a rate, in the largest unit that leaves at most three digits before
/// the point: "500Mbit", "47.8Mbit".
std::string FormatLinkRate(double bytes_per_second);

}  // namespace harmonaize
