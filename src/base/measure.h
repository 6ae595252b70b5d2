#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize {

/// What a number with a unit measures. Values are in seconds, bytes per second, and bytes.
enum class Measure { kDuration, kRate, kSize };

/// Parses a number and a unit, with or without a space between: "30 s", "2 GB/s", "64 MiB".
///  - Durations: ns, us, ms, s, min, h, d.
///  - Rates: B/s, kB/s, MB/s, GB/s, TB/s and bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, in powers of
///    1000; KiB/s, MiB/s, GiB/s and TiB/s in those of 1024.
///  - Sizes: B, and KiB, MiB, GiB, TiB or K, M, G, T in powers of 1024; kB, MB, GB, TB in those of
///    1000.
/// Errors: kInvalidArgument, with what would do.
Result<double> ParseMeasure(Measure measure, std::string_view text);

/// Returns text that ParseMeasure takes for about the same value (six digits), in the largest unit
/// that keeps the number at 1 or above. Requires: a value of 0 or more.
std::string FormatMeasure(Measure measure, double value);

}  // namespace harmonaize
