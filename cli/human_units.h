#pragma once

#include <cstdint>
#include <string>

namespace harmonaize {

/// Returns "0 B", "1023 B", "1.5 KiB", "20 GiB": three digits at most, powers of 1024.
std::string HumanBytes(uint64_t bytes);
/// Returns "0 s", "59 s", "2 min 3 s", "5 h 7 min", "3 d 4 h".
std::string HumanDuration(double seconds);
/// Returns "85 ns", "12.3 us", "4.56 ms", "2 s": three digits.
std::string HumanTime(double seconds);
/// Returns "29.3 GB/s": three digits, powers of 1000.
std::string HumanRate(double bytes_per_second);

}  // namespace harmonaize
