#include "src/base/clean_text.h"

#include <algorithm>
#include <cstdint>

namespace harmonaize {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

/// What a text begins with.
struct Piece {
  size_t bytes = 1;
  bool clean = false;
};

uint8_t ByteAt(std::string_view text, size_t place) {
  return static_cast<uint8_t>(text[place]);
}

/// Which bytes may follow a lead byte of several: its second, in this range, decides whether a
/// sequence is overlong, a surrogate, or beyond U+10FFFF (table 3-7 of the Unicode Standard).
struct Lead {
  size_t following = 0;  ///< 0: no sequence begins with it.
  uint8_t lowest = 0x80;
  uint8_t highest = 0xbf;
};

Lead LeadOf(uint8_t byte) {
  if (byte >= 0xc2 && byte <= 0xdf) return {1};
  if (byte == 0xe0) return {2, 0xa0, 0xbf};
  if (byte == 0xed) return {2, 0x80, 0x9f};
  if (byte >= 0xe1 && byte <= 0xef) return {2};
  if (byte == 0xf0) return {3, 0x90, 0xbf};
  if (byte >= 0xf1 && byte <= 0xf3) return {3};
  if (byte == 0xf4) return {3, 0x80, 0x8f};
  return {};
}

/// One character; or, of what is no UTF-8, as much as could have begun one.
Piece FirstPiece(std::string_view text) {
  const uint8_t first = ByteAt(text, 0);
  if (first < 0x80) return {1, first >= 0x20 && first != 0x7f};
  const Lead lead = LeadOf(first);
  for (size_t place = 1; place <= lead.following; ++place) {
    const uint8_t lowest = place == 1 ? lead.lowest : 0x80;
    const uint8_t highest = place == 1 ? lead.highest : 0xbf;
    if (place == text.size() || ByteAt(text, place) < lowest || ByteAt(text, place) > highest) {
      return {place, false};
    }
  }
  const bool c1_control = first == 0xc2 && lead.following == 1 && ByteAt(text, 1) < 0xa0;
  return {1 + lead.following, lead.following > 0 && !c1_control};
}

}  // namespace

std::string CleanText(std::string_view text, size_t most_bytes) {
  std::string cleaned;
  cleaned.reserve(std::min(text.size(), most_bytes));
  while (!text.empty()) {
    const Piece piece = FirstPiece(text);
    const std::string_view kept = piece.clean ? text.substr(0, piece.bytes) : kReplacement;
    if (cleaned.size() + kept.size() > most_bytes) break;
    cleaned += kept;
    text.remove_prefix(piece.bytes);
  }
  return cleaned;
}

}  // namespace harmonaize
