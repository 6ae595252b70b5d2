#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace harmonaize {

/// Returns the bytes as lower-case hexadecimal digits.
std::string HexOf(std::span<const uint8_t> bytes);

}  // namespace harmonaize
