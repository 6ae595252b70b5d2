// Plans as other daemons may send them: a plan that cannot be carried out is refused, not tried.

#include "daemon/plans/host_plan.h"

#include <gtest/gtest.h>

#include "daemon/plans/fabrics.h"
#include "daemon/plans/home_planner.h"

namespace harmonaize::daemon {
namespace {

class HostPlanTest : public ::testing::Test {
 protected:
  Fabrics fabrics_;
  RatedModels& models_ = *fabrics_.OneSwitch(4).rated;
  const Problem problem_{.collective = Collective::kAllReduce,
                         .host_of_rank = {0, 1, 2, 2},
                         .root = -1,
                         .in_place = true};
  CollectivePlan plan_{.key = {Collective::kAllReduce, -1, 2},
                       .algorithm = "ring",
                       .order = {0, 1, 2},
                       .order_name = "given",
                       .pieces = 2,
                       .paths = PathUse::kEcmp};

  Status Make() { return MakeHostPart(&models_, problem_, 1, plan_, {}).status(); }
};

TEST_F(HostPlanTest, AGoodOneHasPeersAndSteps) {
  const Result<HostPart> part = MakeHostPart(&models_, problem_, 1, plan_, {});
  ASSERT_TRUE(part.ok()) << part.status().message();
  EXPECT_EQ(part->peers, (std::vector<int>{0, 2}));
  EXPECT_FALSE(part->program->steps().empty());
}

TEST_F(HostPlanTest, RatesOfLinksThatAreNotThereAreRefused) {
  EXPECT_EQ(MakeHostPart(&models_, problem_, 1, plan_, {{1000, 1e6}}).status().code(),
            Code::kInvalidArgument);
  plan_.rates = {{1000, 1e6}};
  EXPECT_EQ(Make().code(), Code::kInvalidArgument);
}

TEST_F(HostPlanTest, AnUnknownAlgorithmIsRefused) {
  plan_.algorithm = "teleport";
  EXPECT_EQ(Make().code(), Code::kInvalidArgument);
}

TEST_F(HostPlanTest, OrdersThatAreNotOfTheHostsAreRefused) {
  for (const std::vector<int>& order :
       {std::vector<int>{0, 1}, std::vector<int>{0, 1, 1}, std::vector<int>{0, 1, 3},
        std::vector<int>{0, 1, 99}, std::vector<int>{0, 1, 2, 2000000000}}) {
    plan_.order = order;
    EXPECT_FALSE(Make().ok());
  }
}

TEST_F(HostPlanTest, GroupsThatAreNotOfTheHostsAreRefused) {
  plan_.algorithm = "hierarchical";
  plan_.order = {};
  for (const std::vector<std::vector<int>>& groups :
       {std::vector<std::vector<int>>{}, {{0, 1}}, {{0, 1}, {1, 2}}, {{0, 1}, {2, 99}}, {{}}}) {
    plan_.groups = groups;
    EXPECT_FALSE(Make().ok());
  }
  plan_.groups = {{0, 1}, {2}};
  EXPECT_TRUE(Make().ok()) << Make().message();
}

TEST_F(HostPlanTest, ATextThatIsNoFabricIsRefused) {
  EXPECT_FALSE(fabrics_.AddText(1, "").ok());
  EXPECT_FALSE(fabrics_.AddText(1, fabrics_.OneSwitch(2).text).ok());
  const KnownFabric& known = fabrics_.OneSwitch(3);
  Fabrics others;
  EXPECT_TRUE(others.AddText(known.digest, known.text).ok());
  EXPECT_EQ(others.Find(known.digest)->model->hosts(), 3);
  EXPECT_EQ(others.Find(12345), nullptr);
}

TEST(SizeClass, IsTheNearest) {
  EXPECT_EQ(SizeClassOf(0), 0);
  EXPECT_EQ(SizeClassOf(256), 0);
  EXPECT_EQ(SizeClassOf(1024), 1);
  EXPECT_EQ(SizeClassOf(UINT64_MAX), 11);
}

}  // namespace
}  // namespace harmonaize::daemon
