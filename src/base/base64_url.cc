#include "src/base/base64_url.h"

namespace harmonaize {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

}  // namespace

std::string Base64UrlOf(std::span<const uint8_t> bytes) {
  std::string text;
  uint32_t bits = 0;
  int count = 0;
  for (const uint8_t byte : bytes) {
    bits = (bits << 8 | byte) & 0xffff;
    for (count += 8; count >= 6; count -= 6) text += kLetters[bits >> (count - 6) & 63];
  }
  if (count > 0) text += kLetters[bits << (6 - count) & 63];
  return text;
}

std::optional<std::vector<uint8_t>> Base64UrlDecoded(std::string_view text) {
  std::vector<uint8_t> bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char letter : text) {
    const size_t value = kLetters.find(letter);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6 | static_cast<uint32_t>(value)) & 0xffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<uint8_t>(bits >> count));
  }
  // Six bits alone are no byte, and what is left over is zero in a text of Base64UrlOf.
  if (count >= 6 || (bits & ((1u << count) - 1)) != 0) return std::nullopt;
  return bytes;
}

}  // namespace harmonaize
