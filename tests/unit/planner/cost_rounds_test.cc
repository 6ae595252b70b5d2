#include "src/planner/cost_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/planner/inline_choice.h"
#include "tests/support/busy_processes.h"

namespace harmonaize {
namespace {

constexpr HostLoad kQuiet{.lost = 0.01, .running = 1};
constexpr HostLoad kBusy{.lost = 0.6, .running = 9};

/// Rounds that are typical but for one cost.
std::vector<HostCosts> RoundsWith(double HostCosts::*cost, const std::vector<double>& values) {
  std::vector<HostCosts> rounds(values.size(), TypicalCosts());
  for (size_t i = 0; i < values.size(); ++i) rounds[i].*cost = values[i];
  return rounds;
}

bool AnyMentions(const std::vector<std::string>& doubts, const std::string& what) {
  return std::any_of(doubts.begin(), doubts.end(), [&](const std::string& doubt) {
    return doubt.find(what) != std::string::npos;
  });
}

TEST(JudgeRounds, TakesTheBestThatAnotherRoundConfirms) {
  const MeasuredCosts time =
      JudgeRounds(RoundsWith(&HostCosts::yield_ns, {1900, 1000, 9000}), kQuiet);
  EXPECT_TRUE(time.evidence.sure());
  EXPECT_EQ(time.costs.yield_ns, 1000);
  EXPECT_EQ(time.evidence.rounds, 3);
  EXPECT_EQ(time.evidence.agreed, 2);
  const MeasuredCosts rate =
      JudgeRounds(RoundsWith(&HostCosts::copy_bytes_per_second, {2e9, 20e9, 11e9, 1e9}), kQuiet);
  EXPECT_TRUE(rate.evidence.sure());
  EXPECT_EQ(rate.costs.copy_bytes_per_second, 20e9);
  EXPECT_EQ(rate.evidence.agreed, 2);
}

TEST(JudgeRounds, TakesThreeThatAgreeForMoreThanOneThatIsBetter) {
  const MeasuredCosts measured =
      JudgeRounds(RoundsWith(&HostCosts::wake_ns, {3960, 1070, 4030, 3930}), kQuiet);
  EXPECT_TRUE(measured.evidence.sure());
  EXPECT_EQ(measured.costs.wake_ns, 3930);
  EXPECT_EQ(measured.evidence.agreed, 3);
  const MeasuredCosts two =
      JudgeRounds(RoundsWith(&HostCosts::wake_ns, {3960, 1070, 4030}), kQuiet);
  EXPECT_FALSE(two.evidence.sure());
}

TEST(JudgeRounds, DoubtsABestThatNoRoundConfirms) {
  for (const HostCostField& field : kHostCostFields) {
    const double typical = field.typical;
    const MeasuredCosts measured =
        JudgeRounds(RoundsWith(field.value, {typical, typical * 2.5, typical / 2.5}), kQuiet);
    ASSERT_EQ(measured.evidence.doubts.size(), 1u) << field.name;
    EXPECT_TRUE(AnyMentions(measured.evidence.doubts, std::string(field.name)));
    EXPECT_EQ(measured.evidence.agreed, 1) << field.name;
    // It counts for use nevertheless.
    EXPECT_TRUE(Plausible(measured.costs));
    EXPECT_NE(measured.costs.*field.value, typical) << field.name;
  }
}

TEST(JudgeRounds, LeavesOutWhatCannotBe) {
  for (const HostCostField& field : kHostCostFields) {
    // Neither beyond one bound nor beyond the other does a value count.
    const MeasuredCosts confirmed = JudgeRounds(
        RoundsWith(field.value,
                   {field.most * 9, field.typical, field.least / 9, field.typical * 1.5}),
        kQuiet);
    EXPECT_TRUE(confirmed.evidence.sure()) << field.name;
    EXPECT_GE(confirmed.costs.*field.value, field.typical) << field.name;
    const MeasuredCosts none =
        JudgeRounds(RoundsWith(field.value, {field.most * 9, field.least / 9}), kQuiet);
    EXPECT_EQ(none.costs.*field.value, field.typical) << field.name;
    EXPECT_TRUE(AnyMentions(none.evidence.doubts, "stands in")) << field.name;
    EXPECT_EQ(none.evidence.agreed, 0) << field.name;
  }
}

TEST(JudgeRounds, DoubtsWhatWasMeasuredUnderLoadOrOnlyOnce) {
  const std::vector<HostCosts> rounds(3, TypicalCosts());
  EXPECT_TRUE(JudgeRounds(rounds, kQuiet).evidence.sure());
  const MeasuredCosts busy = JudgeRounds(rounds, kBusy);
  EXPECT_FALSE(busy.evidence.sure());
  EXPECT_EQ(busy.evidence.load.running, kBusy.running);
  EXPECT_EQ(busy.evidence.agreed, 3);
  const MeasuredCosts once = JudgeRounds({rounds.data(), 1}, kQuiet);
  EXPECT_EQ(once.evidence.doubts.size(), 1u);
}

// While two compilers ran, a host of two processors was measured like this.
TEST(JudgeRounds, StandInsKeepSmallOperationsInline) {
  HostCosts spoilt = TypicalCosts();
  spoilt.handoff_ns = 3.2e6;
  spoilt.yield_ns = 2e6;
  spoilt.wake_up_ns = 1.2e7;
  const HostShape shape{.processors = 2, .workers = 2};
  EXPECT_EQ(InlineChoice(spoilt, shape).Limit(Collective::kAllReduce, 3, false), 0u);
  const MeasuredCosts measured = JudgeRounds({&spoilt, 1}, kBusy);
  EXPECT_FALSE(measured.evidence.sure());
  EXPECT_TRUE(Plausible(measured.costs));
  EXPECT_GT(InlineChoice(measured.costs, shape).Limit(Collective::kAllReduce, 3, false), 0u);
}

/// A host that shows what a test wants.
struct FakeHost {
  std::vector<HostCosts> rounds;  // the last one again and again
  std::vector<HostLoad> loads;    // likewise
  size_t measured = 0;
  size_t looked = 0;
  size_t paused = 0;

  RoundMeans Means() {
    return {.measure = [this](const std::function<bool()>& go_on) -> Result<HostCosts> {
              if (!go_on()) return Status(Code::kInProgress, "told to end");
              return rounds[std::min(measured++, rounds.size() - 1)];
            },
            .look = [this]() -> Result<HostLoad> {
              return loads[std::min(looked++, loads.size() - 1)];
            },
            .pause = [this] { ++paused; }};
  }
};

bool Always(const HostLoad&) {
  return true;
}

TEST(MeasureInRounds, HasThreeRoundsSpreadInTimeWhereAllAgree) {
  FakeHost host{.rounds = {TypicalCosts()}, .loads = {kQuiet}};
  const Result<MeasuredCosts> measured = MeasureInRounds(host.Means(), Always);
  ASSERT_TRUE(measured.ok());
  EXPECT_TRUE(measured->evidence.sure());
  EXPECT_EQ(host.measured, 3u);
  EXPECT_EQ(host.paused, 2u);
  EXPECT_EQ(host.looked, 4u);
}

TEST(MeasureInRounds, HasMoreRoundsUntilTheyAgree) {
  FakeHost host{.rounds = RoundsWith(&HostCosts::yield_ns, {10000, 4000, 1500, 600, 700}),
                .loads = {kQuiet}};
  const Result<MeasuredCosts> measured = MeasureInRounds(host.Means(), Always);
  ASSERT_TRUE(measured.ok());
  EXPECT_TRUE(measured->evidence.sure());
  EXPECT_EQ(measured->costs.yield_ns, 600);
  EXPECT_EQ(host.measured, 5u);
  FakeHost unsteady{.rounds = RoundsWith(&HostCosts::yield_ns, {16000, 6000, 2500, 1000, 400}),
                    .loads = {kQuiet}};
  const Result<MeasuredCosts> unsure = MeasureInRounds(unsteady.Means(), Always);
  ASSERT_TRUE(unsure.ok());
  EXPECT_FALSE(unsure->evidence.sure());
  EXPECT_EQ(unsteady.measured, 5u);
}

TEST(MeasureInRounds, HasOneRoundUnderLoad) {
  FakeHost host{.rounds = {TypicalCosts()}, .loads = {kBusy}};
  const Result<MeasuredCosts> measured = MeasureInRounds(host.Means(), Always);
  ASSERT_TRUE(measured.ok());
  EXPECT_FALSE(measured->evidence.sure());
  EXPECT_EQ(host.measured, 1u);
  // The load that comes later counts as well.
  FakeHost later{.rounds = {TypicalCosts()}, .loads = {kQuiet, kQuiet, kBusy}};
  const Result<MeasuredCosts> spoilt = MeasureInRounds(later.Means(), Always);
  ASSERT_TRUE(spoilt.ok());
  EXPECT_FALSE(spoilt->evidence.sure());
  EXPECT_EQ(later.measured, 2u);
}

TEST(MeasureInRounds, EndsWhenItIsTold) {
  FakeHost host{.rounds = {TypicalCosts()}, .loads = {kQuiet, kBusy}};
  const Result<MeasuredCosts> given_up =
      MeasureInRounds(host.Means(), [](const HostLoad& so_far) { return !so_far.heavy(); });
  EXPECT_EQ(given_up.status().code(), Code::kInProgress);
  EXPECT_EQ(host.measured, 1u);
  host.loads = {kBusy};
  host.measured = 0;
  EXPECT_FALSE(MeasureInRounds(host.Means(), [](const HostLoad&) { return false; }).ok());
  EXPECT_EQ(host.measured, 0u);
}

TEST(MeasureInRounds, PassesErrorsOn) {
  FakeHost host{.rounds = {TypicalCosts()}, .loads = {kQuiet}};
  RoundMeans no_threads = host.Means();
  no_threads.measure = [](const auto&) { return Result<HostCosts>(SystemError("no threads")); };
  EXPECT_EQ(MeasureInRounds(no_threads, Always).status().code(), Code::kSystemError);
  RoundMeans no_look = host.Means();
  no_look.look = [] { return Result<HostLoad>(SystemError("no threads")); };
  EXPECT_EQ(MeasureInRounds(no_look, Always).status().code(), Code::kSystemError);
}

TEST(MeasureHost, GivesPlausibleCostsWhateverElseRuns) {
  const Result<MeasuredCosts> measured = MeasureHost(size_t{8} << 20, Always);
  ASSERT_TRUE(measured.ok()) << measured.status().message();
  EXPECT_TRUE(Plausible(measured->costs));
  EXPECT_GE(measured->evidence.rounds, 1);
}

TEST(LoadMeter, SeesThatOthersHaveTheProcessors) {
  EXPECT_EQ(LoadMeter().load().lost, 0);
  const testing::BusyProcesses busy(2);
  LoadMeter meter;
  for (int look = 0; look < 10; ++look) ASSERT_TRUE(meter.Look().ok());
  EXPECT_TRUE(meter.load().heavy()) << meter.load().lost;
  EXPECT_LE(meter.load().lost, 1);
  EXPECT_GE(meter.load().running, 1);
}

}  // namespace
}  // namespace harmonaize
