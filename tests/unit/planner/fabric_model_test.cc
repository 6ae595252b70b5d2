#include "src/planner/fabric_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/topology/fabric/fabric_routing.h"
#include "src/topology/fabric/fat_tree.h"
#include "tests/unit/planner/fabrics.h"

namespace harmonaize {
namespace {

FabricModel SmallFatTree() {
  const FatTree tree{.hosts = 12,
                     .hosts_per_leaf = 2,
                     .leaves_per_pod = 2,
                     .spines_per_pod = 2,
                     .cores_per_spine = 2,
                     .nics = 2};
  return FabricOf(FatTreeFile(tree).value());
}

// The model answers for kinds of hosts; the routing, which it has to agree with, for each NIC.
void ExpectRoutesOfRouting(const FabricModel& model) {
  const FabricRouting routing(model.fabric());
  const std::vector<int> nodes = model.fabric().Hosts();
  for (int from = 0; from < model.hosts(); ++from) {
    for (int to = 0; to < model.hosts(); ++to) {
      if (from == to) continue;
      for (const Lane& rail : model.Lanes(from, to, PathUse::kEcmp)) {
        const Endpoint start{nodes[static_cast<size_t>(from)], rail.from_nic};
        const Endpoint end{nodes[static_cast<size_t>(to)], rail.to_nic};
        for (int path = 0; path < model.fabric().explicit_paths; ++path) {
          Lane lane = rail;
          lane.path = path;
          EXPECT_EQ(model.RouteOf(from, to, lane), routing.ExplicitRoute(start, end, path))
              << model.HostName(from) << " to " << model.HostName(to) << " by " << path;
        }
        const std::vector<Route> equal = routing.EqualCostRoutes(start, end);
        EXPECT_NE(std::find(equal.begin(), equal.end(), model.RouteOf(from, to, rail)),
                  equal.end());
      }
    }
  }
}

TEST(FabricModelTest, TakesTheWaysOfTheRouting) {
  for (const std::string& name : ShippedFabrics()) {
    SCOPED_TRACE(name);
    ExpectRoutesOfRouting(ShippedFabric(name));
  }
  ExpectRoutesOfRouting(SmallFatTree());
}

TEST(FabricModelTest, LanesAreRailsTimesPaths) {
  const FabricModel two_racks = ShippedFabric("two-racks");
  EXPECT_EQ(two_racks.Lanes(0, 2, PathUse::kEcmp),
            (std::vector<Lane>{{0, 0, -1, 1}, {1, 1, -1, 1}}));
  EXPECT_EQ(two_racks.Lanes(0, 2, PathUse::kWeighted),
            (std::vector<Lane>{{0, 0, 0, 1}, {0, 0, 1, 1}, {1, 1, 0, 1}, {1, 1, 1, 1}}));
  // All paths are one inside a rack.
  EXPECT_EQ(two_racks.Lanes(0, 1, PathUse::kWeighted),
            (std::vector<Lane>{{0, 0, 0, 1}, {1, 1, 0, 1}}));
}

TEST(FabricModelTest, WeightsFollowTheNarrowestLink) {
  // host4 to host6: 250 Mbit/s over spine 0, 100 Mbit/s over spine 1.
  const FabricModel model = ShippedFabric("three-racks-unequal");
  const std::vector<Lane> lanes = model.Lanes(4, 6, PathUse::kWeighted);
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_NEAR(1.0 * lanes[0].weight / lanes[1].weight, 2.5, 0.1);
  EXPECT_EQ(model.Lanes(4, 6, PathUse::kEven)[0].weight, 1);
}

// Ways divide what comes to a switch by what lies behind each of its links.
TEST(FabricModelTest, WithoutExplicitPathsRailsAreSpread) {
  Fabric fabric = ShippedFabric("two-racks").fabric();
  fabric.explicit_paths = 0;
  const FabricModel two_racks(fabric);
  EXPECT_EQ(two_racks.Lanes(0, 2, PathUse::kWeighted),
            (std::vector<Lane>{{0, 0, -1, 1, true}, {1, 1, -1, 1, true}}));
  EXPECT_EQ(two_racks.Lanes(0, 2, PathUse::kEcmp),
            (std::vector<Lane>{{0, 0, -1, 1, false}, {1, 1, -1, 1, false}}));

  // From the rack of host4 to that of host6: 250 Mbit/s over spine 0, 100 Mbit/s over spine 1.
  const FabricModel unequal = ShippedFabric("three-racks-unequal");
  const FabricModel::Way way = unequal.WayBy(4, 6, 0, 0);
  EXPECT_NEAR(unequal.CarriedTo(way.start, way.target), 350e6 / 8, 1);
  double least = 1e12;
  for (const int edge : unequal.NextHops(way.start, way.target)) {
    least = std::min(least, unequal.CarriedBy(edge, way.target));
  }
  EXPECT_NEAR(least, 100e6 / 8, 1);
}

TEST(FabricModelTest, WhereThereIsOneWayNothingIsSpread) {
  const auto spread = [](const FabricModel& model, int from, int to) {
    const std::vector<Lane> lanes = model.Lanes(from, to, PathUse::kWeighted);
    return std::ranges::all_of(lanes, &Lane::spread);
  };
  EXPECT_FALSE(spread(ShippedFabric("one-rack"), 0, 1));
  EXPECT_FALSE(spread(ShippedFabric("rails"), 0, 1));
  Fabric fabric = ShippedFabric("two-racks").fabric();
  fabric.explicit_paths = 0;
  EXPECT_FALSE(spread(FabricModel(fabric), 0, 1));  // in a rack
  EXPECT_TRUE(spread(FabricModel(fabric), 1, 2));
  // One spine may stand for several: an inferred fabric has never more.
  std::erase_if(fabric.links, [&](const Link& link) {
    return std::ranges::any_of(
        link.ends, [&](const LinkEnd& end) { return end.node == fabric.FindNode("spine1"); });
  });
  EXPECT_TRUE(spread(FabricModel(fabric), 1, 2));
  fabric = ShippedFabric("ring").fabric();
  fabric.explicit_paths = 0;
  EXPECT_FALSE(spread(FabricModel(fabric), 0, 1));  // one cable
  EXPECT_TRUE(spread(FabricModel(fabric), 0, 2));
}

TEST(FabricModelTest, HostsAtOneSwitchAreOfOneKind) {
  const FabricModel model = ShippedFabric("two-racks");
  EXPECT_EQ(model.kinds(), 2);
  EXPECT_EQ(model.KindOf(0), model.KindOf(1));
  EXPECT_NE(model.KindOf(1), model.KindOf(2));
  EXPECT_EQ(model.RackOf(2), 1);
  EXPECT_EQ(ShippedFabric("ring").kinds(), 4);
}

TEST(FabricModelTest, CapacitiesAreWholeAndExact) {
  const FabricModel model = ShippedFabric("three-racks-unequal");
  EXPECT_DOUBLE_EQ(model.CapacityUnit(), 50e6 / 8);  // what 100, 250, 500 and 1000 Mbit/s share
  const CapacityGraph graph = model.GraphFor(HostPlacement({0, 1, 4, 6}));
  EXPECT_EQ(graph.edges[0].capacity, 5);
  EXPECT_EQ(graph.host_of_node[0], 0);
  EXPECT_TRUE(CheckCapacityGraph(graph, HostPlacement({0, 1, 4, 6})).ok());
}

TEST(FabricModelTest, ParallelLinksAreOneEdge) {
  const FabricModel model = ShippedFabric("two-racks");
  const CapacityGraph graph = model.GraphFor(HostPlacement({0, 1, 2, 3}));
  EXPECT_EQ(graph.edges.size(), 16u);  // 4 hosts, 4 uplinks, both ways
  EXPECT_EQ(graph.edges[0].capacity, 2 * graph.edges[15].capacity);
}

TEST(FabricModelTest, AHostThatForwardsWithoutRanksIsASwitch) {
  const FabricModel model = ShippedFabric("ring");
  const CapacityGraph graph = model.GraphFor(HostPlacement({0, 2}));
  EXPECT_EQ(graph.host_of_node, (std::vector<int>{0, -1, 2, -1}));
}

TEST(FabricModelTest, FindsTheLanesOfAWay) {
  const FabricModel model = ShippedFabric("two-racks");
  const auto node = [&](const char* name) { return model.fabric().FindNode(name); };
  const std::vector<int> over_spine1 = {node("host0"), node("leaf0"), node("spine1"), node("leaf1"),
                                        node("host2")};
  EXPECT_EQ(model.LanesThrough(0, 2, over_spine1), (std::vector<Lane>{{0, 0, 1, 1}, {1, 1, 1, 1}}));
  EXPECT_TRUE(model.LanesThrough(0, 2, {node("host0"), node("leaf0"), node("host2")}).empty());
}

TEST(FatTreeTest, CountsWhatItIsMadeOf) {
  const FabricModel model = SmallFatTree();
  EXPECT_EQ(model.hosts(), 12);
  EXPECT_EQ(model.kinds(), 6);
  // Hosts 12 * 2, leaves 6 * 2, spines of 3 pods 6 * 2.
  EXPECT_EQ(model.edges(), 2 * (24 + 12 + 12));
  EXPECT_FALSE(FatTreeFile({.hosts = 0}).ok());
  EXPECT_FALSE(FatTreeFile({.host_rate = "fast"}).ok());
}

}  // namespace
}  // namespace harmonaize
