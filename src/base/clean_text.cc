#include "src/base/clean_text.h"

#include <algorithm>
#include <cstdint>

namespace harmonaize {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

/// The first character of a text, or the first bytes that are none.
struct Piece {
  size_t bytes = 1;
  bool clean = false;
};

uint8_t ByteAt(std::string_view text, size_t place) {
  return static_cast<uint8_t>(text[place]);
}

/// The bytes that may follow a lead byte: the second one's range decides whether a sequence is
/// overlong, a surrogate, or beyond U+10FFFF (table 3-7 of the Unicode Standard).
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

/// Returns whether a character of three bytes is invisible, and changes how others are shown or
/// where a line ends: zero width (U+200B to 200F, U+2060 to 2064, U+FEFF), line and paragraph
/// separators and directions (U+2028 to 202E, U+2066 to 206F).
bool IsUnseen(std::string_view character) {
  if (character == "\xef\xbb\xbf") return true;
  if (!character.starts_with("\xe2\x80") && !character.starts_with("\xe2\x81")) return false;
  const uint8_t last = ByteAt(character, 2);
  if (ByteAt(character, 1) == 0x80)
    return (last >= 0x8b && last <= 0x8f) || (last >= 0xa8 && last <= 0xae);
  return last >= 0xa0 && last <= 0xaf;
}

/// Returns one character; or, if the text is not UTF-8, as much as could have begun one.
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
  const bool unseen = lead.following == 2 && IsUnseen(text.substr(0, 3));
  // U+061C, which marks Arabic letters, is the only such character of two bytes.
  const bool mark = first == 0xd8 && ByteAt(text, 1) == 0x9c;
  return {1 + lead.following, lead.following > 0 && !c1_control && !unseen && !mark};
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
