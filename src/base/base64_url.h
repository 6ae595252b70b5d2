#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace harmonaize {

/// Returns the bytes in base64url (RFC 4648, section 5), without padding.
std::string Base64UrlOf(std::span<const uint8_t> bytes);

/// Returns the bytes that Base64UrlOf has made the text of; nullopt for any other text.
std::optional<std::vector<uint8_t>> Base64UrlDecoded(std::string_view text);

}  // namespace harmonaize
