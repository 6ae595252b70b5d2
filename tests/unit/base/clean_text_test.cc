// Names that strangers give: whatever their bytes, what comes of them is UTF-8 in one line.

#include "src/base/clean_text.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

namespace harmonaize {
namespace {

using namespace std::string_literals;

constexpr size_t kLong = 1000;
const std::string kReplaced = "\xef\xbf\xbd";  // U+FFFD

std::string Replaced(int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += kReplaced;
  return text;
}

TEST(CleanText, CleanTextStaysAsItIs) {
  for (const std::string text :
       {"", "all_reduce 7 ~", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x8e\xbb",
        // The first and last characters of each length, and the neighbours of what is forbidden.
        " ", "~", "\xc2\xa0", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "\xef\xbf\xbd"}) {
    EXPECT_EQ(CleanText(text, kLong), text);
    EXPECT_EQ(CleanText(text, text.size()), text);
  }
}

TEST(CleanText, ControlCharactersAreReplaced) {
  for (int byte = 0; byte < 0x20; ++byte) {
    EXPECT_EQ(CleanText("a" + std::string(1, static_cast<char>(byte)) + "b", kLong),
              "a" + kReplaced + "b")
        << byte;
  }
  EXPECT_EQ(CleanText("\x7f", kLong), kReplaced);
  for (int byte = 0x80; byte < 0xa0; ++byte) {
    const std::string control = "\xc2" + std::string(1, static_cast<char>(byte));
    EXPECT_EQ(CleanText(control, kLong), kReplaced) << byte;
  }
  EXPECT_EQ(CleanText("\x1b[2Jx\r\ny", kLong), kReplaced + "[2Jx" + Replaced(2) + "y");
  EXPECT_EQ(CleanText("a\0b"s, kLong), "a" + kReplaced + "b");
}

// With these a name could make an operator see another line than the one that stands in a log.
TEST(CleanText, UnseenCharactersAreReplaced) {
  for (const std::string unseen :
       {"\xe2\x80\x8b", "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xae", "\xe2\x81\xa0",
        "\xe2\x81\xa6", "\xe2\x81\xaf", "\xef\xbb\xbf", "\xd8\x9c"}) {
    EXPECT_EQ(CleanText("a" + unseen + "b", kLong), "a" + kReplaced + "b");
  }
  // Their neighbours are letters and signs.
  for (const std::string seen : {"\xe2\x80\x8a", "\xe2\x80\x90", "\xe2\x80\xa7", "\xe2\x80\xaf",
                                 "\xe2\x81\x9f", "\xe2\x81\xb0", "\xef\xbb\xbe", "\xd8\x9b"}) {
    EXPECT_EQ(CleanText(seen, kLong), seen);
  }
}

TEST(CleanText, WhatIsNoUtf8IsReplaced) {
  struct Case {
    std::string text;
    int replaced;  // times, and then an "x"
  };
  for (const Case& one :
       {Case{"\xff", 1}, Case{"\xfe\xff", 2}, Case{"\x80", 1}, Case{"\xbf\xbf", 2},
        // Overlong: '\0', '/', U+07FF, U+FFFF.
        Case{"\xc0\x80", 2}, Case{"\xc1\xbf", 2}, Case{"\xc0\xaf", 2}, Case{"\xe0\x80\xaf", 3},
        Case{"\xe0\x9f\xbf", 3}, Case{"\xf0\x80\x80\xaf", 4}, Case{"\xf0\x8f\xbf\xbf", 4},
        // Surrogates, a pair of them too.
        Case{"\xed\xa0\x80", 3}, Case{"\xed\xbf\xbf", 3}, Case{"\xed\xa0\x80\xed\xb0\x80", 6},
        // Beyond U+10FFFF.
        Case{"\xf4\x90\x80\x80", 4}, Case{"\xf5\x80\x80\x80", 4}, Case{"\xf8\x88\x80\x80\x80", 5},
        // Cut short by another character: what could have begun one is replaced as one.
        Case{"\xc3", 1}, Case{"\xe2\x82", 1}, Case{"\xf0\x9f\x8e", 1}, Case{"\xf0\x9f", 1},
        Case{"\xf0\x9f\xe2\x82", 2}, Case{"\xe2\xe2\xe2", 3}}) {
    EXPECT_EQ(CleanText(one.text + "x", kLong), Replaced(one.replaced) + "x");
    EXPECT_EQ(CleanText(one.text, kLong), Replaced(one.replaced)) << "at the end of the text";
  }
}

TEST(CleanText, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(CleanText("abcdef", 3), "abc");
  EXPECT_EQ(CleanText("abcdef", 0), "");
  EXPECT_EQ(CleanText("ab\xc3\xa9z", 4), "ab\xc3\xa9");
  EXPECT_EQ(CleanText("ab\xc3\xa9z", 3), "ab");
  EXPECT_EQ(CleanText("\xf0\x9f\x8e\xbb", 3), "");
  EXPECT_EQ(CleanText("ab\xff\xff", 5), "ab" + kReplaced);
  EXPECT_EQ(CleanText("ab\xff\xff", 4), "ab");
  EXPECT_EQ(CleanText(std::string(5000, '\xff'), 63).size(), 63u);
}

TEST(CleanText, WhatIsCleanedIsClean) {
  std::mt19937 random(3);
  constexpr std::string_view kTelling = "a\x1b\n\x80\xa0\xbf\xc0\xc2\xe0\xed\xef\xf0\xf4\xff\x9f";
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 12, ' ');
    for (char& one : text) one = kTelling[random() % kTelling.size()];
    const size_t most = random() % 30;
    const std::string cleaned = CleanText(text, most);
    EXPECT_LE(cleaned.size(), most);
    EXPECT_EQ(CleanText(cleaned, most), cleaned);
    for (const char one : cleaned) EXPECT_GE(static_cast<unsigned char>(one), 0x20);
  }
}

}  // namespace
}  // namespace harmonaize
