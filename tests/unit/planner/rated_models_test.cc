// A fabric whose links carry something else than it states: plans for that, and what plans of
// before would take.

#include "src/planner/rated_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/unit/planner/fabrics.h"

namespace harmonaize {
namespace {

constexpr uint64_t kSixtyFourMiB = uint64_t{64} << 20;

std::shared_ptr<const FabricModel> Shared(const std::string& name) {
  return std::make_shared<const FabricModel>(ShippedFabric(name));
}

/// Both ways of a link, at a share of what the fabric states.
EdgeRates SlowLink(const FabricModel& model, const std::string& link, double share) {
  const int edge = 2 * model.fabric().FindLink(link);
  EXPECT_GE(edge, 0) << link;
  return {{edge, model.BytesPerSecond(edge) * share},
          {edge + 1, model.BytesPerSecond(edge + 1) * share}};
}

std::shared_ptr<const FabricModel> Rated(RatedModels* models, const EdgeRates& rates) {
  auto model = models->With(rates);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? *model : nullptr;
}

Planner PlannerFor(const FabricModel& model, Collective collective) {
  Result<Planner> planner = Planner::Make(model, ProblemOn(model, collective), {});
  EXPECT_TRUE(planner.ok()) << planner.status().message();
  return *std::move(planner);
}

TEST(RatedModels, AreMadeOnce) {
  const auto stated = Shared("two-racks");
  RatedModels models(stated);
  EXPECT_EQ(Rated(&models, {}), stated);
  const EdgeRates slow = SlowLink(*stated, "leaf0-spine0", 0.2);
  const auto rated = Rated(&models, slow);
  EXPECT_NE(rated, stated);
  EXPECT_EQ(Rated(&models, slow), rated);
  for (int edge = 0; edge < stated->edges(); ++edge) {
    const bool changed = edge / 2 == slow[0].edge / 2;
    EXPECT_DOUBLE_EQ(rated->BytesPerSecond(edge),
                     stated->BytesPerSecond(edge) * (changed ? 0.2 : 1.0));
  }
}

TEST(RatedModels, RefuseWhatCannotBe) {
  const auto stated = Shared("two-racks");
  RatedModels models(stated);
  for (const EdgeRate& wrong :
       {EdgeRate{-1, 1e6}, EdgeRate{stated->edges(), 1e6}, EdgeRate{0, 0}, EdgeRate{0, -1},
        EdgeRate{0, std::nan("")}, EdgeRate{0, std::numeric_limits<double>::infinity()}}) {
    EXPECT_EQ(models.With({wrong}).status().code(), Code::kInvalidArgument);
  }
}

TEST(RatedModels, GiveALaneWhatItsNarrowestLinkCarries) {
  const auto stated = Shared("two-racks");
  RatedModels models(stated);
  const int from = stated->HostNamed("host0");
  const int to = stated->HostNamed("host2");
  const auto slow = Rated(&models, SlowLink(*stated, "leaf0-spine0", 0.25));
  int over_slow = 0;
  int over_fast = 0;
  for (const Lane& lane : slow->Lanes(from, to, PathUse::kWeighted)) {
    (lane.path == 0 ? over_slow : over_fast) += lane.weight;
  }
  EXPECT_EQ(over_fast, 4 * over_slow);
  // One that carries next to nothing is not used.
  const auto cut = Rated(&models, SlowLink(*stated, "leaf0-spine0", 1e-3));
  for (const Lane& lane : cut->Lanes(from, to, PathUse::kWeighted)) EXPECT_EQ(lane.path, 1);
}

TEST(RatedModels, LeaveRacksAsTheyAre) {
  const auto stated = Shared("one-rack");
  RatedModels models(stated);
  const auto slow = Rated(&models, SlowLink(*stated, "host1-leaf0", 0.5));
  for (int host = 0; host < stated->hosts(); ++host) {
    EXPECT_EQ(slow->RackOf(host), stated->RackOf(host));
  }
  EXPECT_NE(slow->KindOf(0), slow->KindOf(1));
}

TEST(PredictOn, TheSameRatesIsWhatWasPredicted) {
  for (const std::string& name : ShippedFabrics()) {
    const auto model = Shared(name);
    const Planner planner = PlannerFor(*model, Collective::kAllReduce);
    for (const RankedPlan& plan : planner.PlanFor(kSixtyFourMiB).plans) {
      const Result<Prediction> again = planner.PredictOn(*model, plan, kSixtyFourMiB);
      ASSERT_TRUE(again.ok()) << again.status().message();
      EXPECT_DOUBLE_EQ(again->seconds, plan.prediction.seconds) << name;
    }
  }
}

// A spine link loses four fifths. A ring can deal its messages by what links carry, but goes across
// the racks with more than there need be.
TEST(PredictOn, ShowsWhatAChangeGains) {
  const auto stated = Shared("two-racks");
  RatedModels models(stated);
  const auto slow = Rated(&models, SlowLink(*stated, "leaf0-spine0", 0.2));
  const Planner before = PlannerFor(*stated, Collective::kAllReduce);
  const Planner after = PlannerFor(*slow, Collective::kAllReduce);
  const RankedPlan old_plan = before.PlanFor(kSixtyFourMiB).plans.front();
  ASSERT_EQ(before.candidates()[old_plan.candidate].spec.algorithm->name, "ring");
  const PlannedSize new_plans = after.PlanFor(kSixtyFourMiB);
  const RankedPlan new_plan = new_plans.plans.front();
  const double dealt_anew = before.PredictOn(*slow, old_plan, kSixtyFourMiB)->seconds;
  EXPECT_GE(dealt_anew, 1.3 * new_plan.prediction.seconds);
  EXPECT_LE(dealt_anew, 2 * old_plan.prediction.seconds);
  EXPECT_LE(new_plan.prediction.seconds, 1.15 * new_plans.bound_seconds);
  // What was made for the slow link is little worse where it has recovered.
  EXPECT_LE(after.PredictOn(*stated, new_plan, kSixtyFourMiB)->seconds,
            1.15 * old_plan.prediction.seconds);
}

// Trees that were packed around a slow link are too careful when it has recovered, and those that
// were not go over it.
TEST(PredictOn, KeepsTheWaysOfTrees) {
  const auto stated = Shared("ring");
  RatedModels models(stated);
  EdgeRates rates;
  for (int edge = 0; edge < 2; ++edge) rates.push_back({edge, stated->BytesPerSecond(edge) / 8});
  const auto slow = Rated(&models, rates);
  const Planner before = PlannerFor(*stated, Collective::kAllReduce);
  const Planner after = PlannerFor(*slow, Collective::kAllReduce);
  const RankedPlan old_plan = before.PlanFor(kSixtyFourMiB).plans.front();
  const RankedPlan new_plan = after.PlanFor(kSixtyFourMiB).plans.front();
  EXPECT_GE(before.PredictOn(*slow, old_plan, kSixtyFourMiB)->seconds,
            1.5 * new_plan.prediction.seconds);
  EXPECT_GE(after.PredictOn(*stated, new_plan, kSixtyFourMiB)->seconds,
            1.2 * old_plan.prediction.seconds);
}

TEST(LanesFrom, FollowTheRates) {
  const auto stated = Shared("two-racks");
  RatedModels models(stated);
  const auto slow = Rated(&models, SlowLink(*stated, "leaf0-spine0", 0.25));
  const Planner planner = PlannerFor(*stated, Collective::kAllReduce);
  const size_t chosen = planner.PlanFor(kSixtyFourMiB).plans.front().candidate;
  for (const MessageLanes& one : planner.LanesFrom(chosen, 0, *slow)) {
    EXPECT_EQ(one.lanes, slow->Lanes(0, one.to_host, PathUse::kWeighted));
  }
  // At the same rates they are the same, also by another model.
  const auto equal = Shared("two-racks");
  for (size_t candidate = 0; candidate < planner.candidates().size(); ++candidate) {
    const auto one = planner.LanesFrom(candidate, 0);
    const auto other = planner.LanesFrom(candidate, 0, *equal);
    ASSERT_EQ(one.size(), other.size());
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i].path, other[i].path);
      EXPECT_EQ(one[i].lanes, other[i].lanes);
    }
  }
}

}  // namespace
}  // namespace harmonaize
