#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// Fills `bytes` with random bits from the kernel. Errors: kSystemError if the kernel gives none.
Status FillRandom(std::span<uint8_t> bytes);

/// Returns the bytes as lower-case hexadecimal digits.
std::string HexOf(std::span<const uint8_t> bytes);

/// Returns the bytes in base64url (RFC 4648, section 5), without padding.
std::string Base64UrlOf(std::span<const uint8_t> bytes);

}  // namespace harmonaize::daemon
