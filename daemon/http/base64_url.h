#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace harmonaize::daemon {

/// Returns the bytes in base64url (RFC 4648, section 5), without padding.
std::string Base64UrlOf(std::span<const uint8_t> bytes);

}  // namespace harmonaize::daemon
