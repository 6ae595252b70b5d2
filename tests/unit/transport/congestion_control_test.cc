#include "src/transport/tcp/congestion_control.h"

#include <gtest/gtest.h>

namespace harmonaize::transport {
namespace {

constexpr double kSlow = 62.5e6;
constexpr double kFast = 12.5e9;

TEST(CongestionControl, LeavesTimersOutWhereTheWayIsFaster) {
  EXPECT_EQ(CongestionControlFor("auto", kFast, "bbr"), "cubic");
  EXPECT_EQ(CongestionControlFor("auto", kFast, "bbr2"), "cubic");
  EXPECT_EQ(CongestionControlFor("auto", kSlow, "bbr"), "");
  EXPECT_EQ(CongestionControlFor("auto", 0, "bbr"), "");
}

TEST(CongestionControl, LeavesWhatHasNoTimersToTheKernel) {
  EXPECT_EQ(CongestionControlFor("auto", kFast, "dctcp"), "");
  EXPECT_EQ(CongestionControlFor("auto", kFast, ""), "");
}

TEST(CongestionControl, IsWhatTheProviderSays) {
  EXPECT_EQ(CongestionControlFor("system", kFast, "bbr"), "");
  EXPECT_EQ(CongestionControlFor("reno", kSlow, "bbr"), "reno");
}

TEST(CongestionControl, MustBeOneThatTheKernelHas) {
  EXPECT_TRUE(CheckCongestionControl("auto").ok());
  EXPECT_TRUE(CheckCongestionControl("system").ok());
  EXPECT_TRUE(CheckCongestionControl("reno").ok());
  const Status unknown = CheckCongestionControl("vagas");
  EXPECT_EQ(unknown.code(), Code::kInvalidArgument);
  EXPECT_NE(unknown.message().find("this kernel has"), std::string::npos);
  EXPECT_NE(unknown.message().find("reno"), std::string::npos);
  EXPECT_FALSE(CheckCongestionControl("").ok());
}

}  // namespace
}  // namespace harmonaize::transport
