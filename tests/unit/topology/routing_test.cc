#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "src/topology/fabric/fabric_file.h"
#include "src/topology/fabric/fabric_routing.h"

namespace harmonaize {
namespace {

Fabric Shipped(const std::string& name) {
  Result<FabricFile> file = LoadFabricFile(FABRICS_FOLDER "/" + name + ".toml");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? file->fabric : Fabric();
}

/// The nodes that a route passes: "host0 leaf0 host1"; "" for none.
std::string Nodes(const Fabric& fabric, const Route& route) {
  if (route.empty()) return "";
  std::string text = fabric.nodes[static_cast<size_t>(fabric.EdgeAt(route[0]).from)].name;
  for (const int edge : route) {
    text += " " + fabric.nodes[static_cast<size_t>(fabric.EdgeAt(edge).to)].name;
  }
  return text;
}

std::vector<bool> Down(const Fabric& fabric, const std::string& link) {
  std::vector<bool> down(fabric.links.size());
  EXPECT_GE(fabric.FindLink(link), 0) << link;
  down[static_cast<size_t>(fabric.FindLink(link))] = true;
  return down;
}

TEST(FabricRouting, SpinesAreEquallyGoodWaysBetweenRacks) {
  const Fabric fabric = Shipped("two-racks");
  const FabricRouting routing(fabric);
  const std::vector<Route> ways = routing.EqualCostRoutes({0, 0}, {2, 1});
  ASSERT_EQ(ways.size(), 2u);
  EXPECT_EQ(Nodes(fabric, ways[0]), "host0 leaf0 spine0 leaf1 host2");
  EXPECT_EQ(Nodes(fabric, ways[1]), "host0 leaf0 spine1 leaf1 host2");
  // They leave and enter by the NICs that were named.
  for (const Route& way : ways) {
    EXPECT_EQ(way.front() / 2, fabric.NicAt({0, 0}).link);
    EXPECT_EQ(way.back() / 2, fabric.NicAt({2, 1}).link);
  }
  EXPECT_EQ(routing.EqualCostRoutes({0, 0}, {2, 1}, 1).size(), 1u);
  EXPECT_EQ(routing.EqualCostRoutes({0, 0}, {1, 0}).size(), 1u);
  EXPECT_TRUE(routing.EqualCostRoutes({0, 0}, {0, 1}).empty());
  EXPECT_EQ(routing.Fanout(), 2);
  EXPECT_EQ(routing.Distance(0, {2, 0}), 4);
  EXPECT_EQ(routing.Distance(0, {0, 0}), 0);
}

TEST(FabricRouting, ExplicitPathsTakeTheSameSpineBothWays) {
  const Fabric fabric = Shipped("two-racks");
  const FabricRouting routing(fabric);
  for (int path = 0; path < fabric.explicit_paths; ++path) {
    const std::string spine = "spine" + std::to_string(path);
    EXPECT_EQ(Nodes(fabric, routing.ExplicitRoute({0, 1}, {3, 1}, path)),
              "host0 leaf0 " + spine + " leaf1 host3");
    EXPECT_EQ(Nodes(fabric, routing.ExplicitRoute({3, 1}, {0, 1}, path)),
              "host3 leaf1 " + spine + " leaf0 host0");
    EXPECT_EQ(Nodes(fabric, routing.ExplicitRoute({0, 0}, {1, 0}, path)), "host0 leaf0 host1");
  }
}

TEST(FabricRouting, PreferencesDecideAmongEqualWays) {
  Fabric fabric = Shipped("three-racks-unequal");
  std::swap(fabric.preferences[0].through, fabric.preferences[1].through);
  const FabricRouting routing(fabric);
  EXPECT_EQ(Nodes(fabric, routing.ExplicitRoute({0, 0}, {6, 0}, 0)),
            "host0 leaf0 spine1 leaf2 host6");
  EXPECT_EQ(Nodes(fabric, routing.ExplicitRoute({0, 0}, {6, 0}, 1)),
            "host0 leaf0 spine0 leaf2 host6");
}

TEST(FabricRouting, WaysGoRoundWhatIsDown) {
  const Fabric fabric = Shipped("two-racks");
  const FabricRouting routing(fabric, Down(fabric, "leaf1-spine0"));
  const std::vector<Route> ways = routing.EqualCostRoutes({0, 0}, {2, 0});
  ASSERT_EQ(ways.size(), 1u);
  EXPECT_EQ(Nodes(fabric, ways[0]), "host0 leaf0 spine1 leaf1 host2");
  const FabricRouting cut(fabric, Down(fabric, "host2-leaf1"));
  EXPECT_TRUE(cut.EqualCostRoutes({0, 0}, {2, 0}).empty());
  EXPECT_TRUE(cut.ExplicitRoute({0, 0}, {2, 0}, 0).empty());
  EXPECT_TRUE(cut.ExplicitRoute({2, 0}, {0, 0}, 0).empty());
  EXPECT_EQ(cut.Distance(0, {2, 0}), -1);
  // The other NIC is not concerned, and is what host2 sends by.
  EXPECT_EQ(cut.EqualCostRoutes({0, 0}, {2, 1}).size(), 2u);
  EXPECT_EQ(cut.NicTowards(2, {0, 0}), 1);
}

TEST(FabricRouting, TrafficStaysOnItsRail) {
  const Fabric fabric = Shipped("rails");
  const FabricRouting routing(fabric);
  EXPECT_EQ(Nodes(fabric, routing.EqualCostRoutes({0, 1}, {3, 1}).at(0)), "host0 rail1 host3");
  EXPECT_TRUE(routing.EqualCostRoutes({0, 0}, {3, 1}).empty());
  EXPECT_EQ(routing.NicTowards(0, {3, 1}), 1);
  EXPECT_EQ(routing.NicTowards(0, {3, 0}), 0);
}

TEST(FabricRouting, HostsSendByTheSamePlaceWhereBothNicsAreAsNear) {
  const Fabric fabric = Shipped("two-racks");
  const FabricRouting routing(fabric);
  EXPECT_EQ(routing.NicTowards(0, {2, 0}), 0);
  EXPECT_EQ(routing.NicTowards(0, {2, 1}), 1);
}

TEST(FabricRouting, HostsOfARingForwardForOneAnother) {
  const Fabric fabric = Shipped("ring");
  const FabricRouting routing(fabric);
  EXPECT_EQ(fabric.explicit_paths, 2);
  // A neighbour is reached by the one link, whichever NIC is addressed.
  for (const int nic : {0, 1}) {
    const std::vector<Route> next = routing.EqualCostRoutes({0, 0}, {1, nic});
    ASSERT_EQ(next.size(), 1u);
    EXPECT_EQ(Nodes(fabric, next[0]), "host0 host1");
  }
  ASSERT_EQ(routing.EqualCostRoutes({0, 0}, {2, 0}).size(), 2u);
  EXPECT_EQ(Nodes(fabric, routing.ExplicitRoute({0, 0}, {2, 0}, 0)), "host0 host1 host2");
  EXPECT_EQ(Nodes(fabric, routing.ExplicitRoute({0, 0}, {2, 0}, 1)), "host0 host3 host2");
  const FabricRouting cut(fabric, Down(fabric, "host0-host1"));
  EXPECT_EQ(Nodes(fabric, cut.EqualCostRoutes({0, 0}, {1, 0}).at(0)), "host0 host3 host2 host1");
}

// What every fabric holds: routes are chains of edges between the right ends, without a node twice,
// through nodes that forward; explicit paths are among the equal ways.
TEST(FabricRouting, RoutesAreSoundInEveryShippedFabric) {
  for (const char* name : {"one-rack", "two-racks", "three-racks-unequal", "ring", "rails"}) {
    const Fabric fabric = Shipped(name);
    const FabricRouting routing(fabric);
    for (const Endpoint& from : fabric.Endpoints()) {
      for (const Endpoint& to : fabric.Endpoints()) {
        const std::vector<Route> ways = routing.EqualCostRoutes(from, to);
        for (const Route& way : ways) {
          EXPECT_EQ(fabric.EdgeAt(way.front()).from, from.host);
          EXPECT_EQ(fabric.EdgeAt(way.back()).to, to.host);
          std::vector<bool> seen(fabric.nodes.size());
          for (size_t i = 0; i < way.size(); ++i) {
            const Edge edge = fabric.EdgeAt(way[i]);
            EXPECT_FALSE(seen[static_cast<size_t>(edge.from)]);
            seen[static_cast<size_t>(edge.from)] = true;
            if (i == 0) continue;
            EXPECT_EQ(edge.from, fabric.EdgeAt(way[i - 1]).to);
            EXPECT_TRUE(fabric.nodes[static_cast<size_t>(edge.from)].forwards);
          }
        }
        for (int path = 0; path < fabric.explicit_paths; ++path) {
          const Route route = routing.ExplicitRoute(from, to, path);
          EXPECT_EQ(route.empty(), ways.empty());
          if (!route.empty()) {
            EXPECT_NE(std::find(ways.begin(), ways.end(), route), ways.end());
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace harmonaize
