#include "src/topology/fabric/link_rate.h"

#include <gtest/gtest.h>

namespace harmonaize {
namespace {

TEST(LinkRate, ReadsWhatNetworksState) {
  const struct {
    const char* text;
    double bytes_per_second;
  } kCases[] = {{"500Mbit", 62.5e6},  {"1Gbit", 125e6},    {"2.5 Gbit/s", 312.5e6},
                {"8000bit", 1000},    {"1kbit", 125},      {"400gbit", 50e9},
                {"100Tbit", 12.5e12}, {"0.5MBIT/s", 62500}};
  for (const auto& one : kCases) {
    const Result<double> rate = ParseLinkRate(one.text);
    ASSERT_TRUE(rate.ok()) << one.text;
    EXPECT_DOUBLE_EQ(*rate, one.bytes_per_second) << one.text;
  }
}

TEST(LinkRate, RefusesAnythingElse) {
  for (const char* text : {"", "500", "Mbit", "500MB", "-1Mbit", "0Mbit", "nanMbit", "infGbit",
                           "1e300Gbit", "999bit", "101Tbit", "500Mbit/h", "500 Mbit s"}) {
    const Result<double> rate = ParseLinkRate(text);
    EXPECT_FALSE(rate.ok()) << text;
    EXPECT_NE(rate.status().message().find("is no rate"), std::string::npos);
  }
}

TEST(LinkRate, WritesWhatItReads) {
  EXPECT_EQ(FormatLinkRate(62.5e6), "500Mbit");
  EXPECT_EQ(FormatLinkRate(5.975e6), "47.8Mbit");
  EXPECT_EQ(FormatLinkRate(125e6), "1Gbit");
  EXPECT_EQ(FormatLinkRate(125), "1kbit");
  for (const double rate : {125.0, 62.5e6, 31.25e6, 50e9, 12.5e12}) {
    EXPECT_DOUBLE_EQ(*ParseLinkRate(FormatLinkRate(rate)), rate);
  }
}

}  // namespace
}  // namespace harmonaize
