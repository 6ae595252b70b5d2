#include "src/base/measure.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace harmonaize {
namespace {

TEST(ParseMeasure, TakesNumbersWithTheirUnits) {
  const std::pair<const char*, double> durations[] = {
      {"30 s", 30}, {"0.5ms", 5e-4}, {"2 min", 120}, {"1e3 us", 1e-3}, {"0 s", 0}, {"1 d", 86400}};
  for (const auto& [text, seconds] : durations) {
    const Result<double> value = ParseMeasure(Measure::kDuration, text);
    ASSERT_TRUE(value.ok()) << text;
    EXPECT_DOUBLE_EQ(*value, seconds) << text;
  }
  EXPECT_DOUBLE_EQ(*ParseMeasure(Measure::kRate, "16 Gbit/s"), 2e9);
  EXPECT_DOUBLE_EQ(*ParseMeasure(Measure::kRate, "2 GB/s"), 2e9);
  EXPECT_DOUBLE_EQ(*ParseMeasure(Measure::kRate, "1 KiB/s"), 1024);
  EXPECT_DOUBLE_EQ(*ParseMeasure(Measure::kSize, "64 MiB"), 64.0 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(*ParseMeasure(Measure::kSize, "64M"), 64.0 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(*ParseMeasure(Measure::kSize, "1.5 kB"), 1500);
}

TEST(ParseMeasure, RefusesWhatHasNoUnitOrNoSense) {
  for (const char* text : {"", "5", "s", "-1 s", "nan s", "inf s", "1e400 s", "5  s", "5 s ",
                           " 5 s", "5 S", "5 GB/s", "0x5 s", "5 s\n", "1e308 d"}) {
    EXPECT_FALSE(ParseMeasure(Measure::kDuration, text).ok()) << text;
  }
  EXPECT_NE(ParseMeasure(Measure::kRate, "5 GB").status().message().find("\"2 GB/s\""),
            std::string::npos);
}

TEST(FormatMeasure, IsTakenForTheSame) {
  EXPECT_EQ(FormatMeasure(Measure::kDuration, 90), "1.5 min");
  EXPECT_EQ(FormatMeasure(Measure::kDuration, 0), "0 s");
  EXPECT_EQ(FormatMeasure(Measure::kRate, 2e9), "2 GB/s");
  EXPECT_EQ(FormatMeasure(Measure::kSize, 1536), "1.5 KiB");
  for (const double value : {1e-9, 3e-7, 0.001, 1.0, 59.5, 86400.0, 1e8}) {
    const std::string text = FormatMeasure(Measure::kDuration, value);
    EXPECT_NEAR(*ParseMeasure(Measure::kDuration, text), value, value * 1e-5) << text;
  }
}

}  // namespace
}  // namespace harmonaize
