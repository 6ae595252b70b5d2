#include "src/base/version_range.h"

#include <gtest/gtest.h>

namespace harmonaize {
namespace {

TEST(VersionRange, TheLatestOfBothIsTaken) {
  EXPECT_EQ(LatestOfBoth({19, 21}, {20, 22}), 21u);
  EXPECT_EQ(LatestOfBoth({20, 22}, {19, 21}), 21u);
  EXPECT_EQ(LatestOfBoth({19, 21}, {21, 21}), 21u);
  EXPECT_EQ(LatestOfBoth({19, 19}, {18, 30}), 19u);
}

TEST(VersionRange, NothingIsTakenWhereTheyDoNotMeet) {
  EXPECT_EQ(LatestOfBoth({19, 20}, {21, 22}), std::nullopt);
  EXPECT_EQ(LatestOfBoth({21, 22}, {19, 20}), std::nullopt);
  // What a stranger says: an oldest version above its latest.
  EXPECT_EQ(LatestOfBoth({19, 21}, {21, 20}), std::nullopt);
}

TEST(VersionRange, ATextNamesAllThatItHas) {
  EXPECT_EQ(TextOf({20, 20}), "version 20");
  EXPECT_EQ(TextOf({19, 21}), "versions 19 to 21");
  EXPECT_EQ(*ParseVersionRange("20"), (VersionRange{20, 20}));
  EXPECT_EQ(*ParseVersionRange("19-21"), (VersionRange{19, 21}));
}

TEST(VersionRange, OtherTextsAreRefused) {
  for (const char* text :
       {"", "-", "20-", "-20", "21-20", "20-21-22", " 20", "20 ", "0x14", "all", "65536", "-1"}) {
    const Result<VersionRange> parsed = ParseVersionRange(text);
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument) << text;
    EXPECT_NE(parsed.status().message().find(std::string("'") + text + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace harmonaize
