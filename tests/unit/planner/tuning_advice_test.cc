#include "src/planner/tuning_advice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "src/planner/rated_models.h"
#include "tests/unit/planner/fabrics.h"

namespace harmonaize {
namespace {

/// The two-racks fabric as stated, and as it is when some links carry less.
class TuningAdviceTest : public ::testing::Test {
 protected:
  TuningAdvice AdviceIf(const EdgeRates& rates) {
    const auto now = models_.With(rates);
    EXPECT_TRUE(now.ok()) << now.status().message();
    Result<TuningAdvice> advice = AdviseTuning(*stated_, **now, {0, 1, 2, 3}, {});
    EXPECT_TRUE(advice.ok()) << advice.status().message();
    return *std::move(advice);
  }
  /// Returns the rates if all links of a host carry a part of what is stated.
  EdgeRates Slow(int host, double share) const {
    EdgeRates rates;
    for (int nic = 0; nic < 2; ++nic) {
      const int out = stated_->EdgeOut(host, nic);
      for (const int edge : {out, out ^ 1}) {
        rates.push_back({edge, share * stated_->BytesPerSecond(edge)});
      }
    }
    std::sort(rates.begin(), rates.end(),
              [](const EdgeRate& a, const EdgeRate& b) { return a.edge < b.edge; });
    return rates;
  }

  std::shared_ptr<const FabricModel> stated_ =
      std::make_shared<const FabricModel>(ShippedFabric("two-racks"));
  RatedModels models_{stated_};
};

TEST_F(TuningAdviceTest, ChangesNothingWhileLinksCarryWhatIsStated) {
  EXPECT_EQ(AdviceIf({}), NoTuningAdvice());
}

TEST_F(TuningAdviceTest, ProtocolsWithMoreBytesAreWorseOnSlowLinks) {
  const TuningTable table = TableOf(AdviceIf(Slow(2, 0.1)));
  const TuningCell& cell = table.cells[kNcclAllReduce][TunedSizeOf(16 << 10)];
  EXPECT_GT(cell.factors[kNcclRing][kNcclLl], 1.1F * cell.factors[kNcclRing][kNcclSimple]);
  EXPECT_EQ(cell.factors[kNcclCollnetDirect][kNcclSimple], 1.0F);
}

TEST_F(TuningAdviceTest, FewChannelsFillSlowLinks) {
  const TuningTable table = TableOf(AdviceIf(Slow(2, 0.1)));
  EXPECT_EQ(table.cells[kNcclAllReduce][TunedSizeOf(64 << 20)].channels, 1);
  EXPECT_EQ(table.cells[kNcclAllReduce][TunedSizeOf(4 << 10)].channels, 0);
  const TuningTable healthy = TableOf(NoTuningAdvice());
  EXPECT_EQ(healthy.cells[kNcclAllReduce][TunedSizeOf(64 << 20)].channels, 0);
  EXPECT_EQ(healthy.cells[kNcclAllReduce][TunedSizeOf(64 << 20)].algorithm, -1);
}

TEST_F(TuningAdviceTest, DependsOnWhichLinksAreSlow) {
  const TuningAdvice one = AdviceIf(Slow(2, 0.1));
  EXPECT_TRUE(IsSoundAdvice(one));
  EXPECT_GT(DifferenceOf(one, NoTuningAdvice()), 1.5);
  EXPECT_DOUBLE_EQ(DifferenceOf(one, NoTuningAdvice()), DifferenceOf(NoTuningAdvice(), one));
  EXPECT_DOUBLE_EQ(DifferenceOf(one, one), 1);
}

TEST_F(TuningAdviceTest, AHostAloneUsesNoNetwork) {
  EXPECT_EQ(AdviseTuning(*stated_, *stated_, {1}, {}).status().code(), Code::kInvalidArgument);
}

TEST(TuningAdvice, WhatDoesNotFitIsNotSound) {
  TuningAdvice advice = NoTuningAdvice();
  EXPECT_TRUE(IsSoundAdvice(advice));
  advice.factors[7] = 0.5;
  EXPECT_FALSE(IsSoundAdvice(advice));
  advice = NoTuningAdvice();
  advice.channels.pop_back();
  EXPECT_FALSE(IsSoundAdvice(advice));
  advice = NoTuningAdvice();
  advice.families[0] = kTuningFamilies;
  EXPECT_FALSE(IsSoundAdvice(advice));
  EXPECT_FALSE(IsSoundAdvice({}));
}

TEST(TuningAdvice, AFamilyThatIsFasterByFarIsNamed) {
  TuningAdvice advice = NoTuningAdvice();
  const int size = TunedSizeOf(1 << 20);
  advice.families[static_cast<size_t>(kNcclAllReduce * kTunedSizes + size)] =
      static_cast<int>(TuningFamily::kTree);
  const TuningTable table = TableOf(advice);
  EXPECT_EQ(table.cells[kNcclAllReduce][size].algorithm, kNcclTree);
  EXPECT_EQ(table.cells[kNcclAllReduce][size].protocol, kNcclSimple);
  EXPECT_EQ(table.cells[kNcclAllGather][size].algorithm, -1);
}

TEST(TuningAdvice, SizesAreTheNearestByRatio) {
  EXPECT_EQ(TunedSizeOf(0), 0);
  EXPECT_EQ(TunedSizeOf(511), 0);
  EXPECT_EQ(TunedSizeOf(512), 1);
  EXPECT_EQ(TunedSizeOf(1024), 1);
  EXPECT_EQ(TunedSizeOf(uint64_t{1} << 30), kTunedSizes - 1);
  EXPECT_EQ(TunedSizeOf(UINT64_MAX), kTunedSizes - 1);
}

}  // namespace
}  // namespace harmonaize
