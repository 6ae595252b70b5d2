#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// Bytes a second from a rate as networks state it: a number and one of bit, kbit, Mbit, Gbit and
/// Tbit (decimal, any case, "/s" may follow): "500Mbit", "2.5 Gbit/s". kInvalidArgument for
/// anything else, and outside of 1 kbit to 100 Tbit.
Result<double> ParseLinkRate(std::string_view text);

/// The same the other way round, in the largest unit that leaves no more than three digits before
/// the point: "500Mbit", "47.8Mbit".
std::string FormatLinkRate(double bytes_per_second);

}  // namespace harmonaize
