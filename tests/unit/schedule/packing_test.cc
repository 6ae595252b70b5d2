#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "src/schedule/algorithms/packed_trees.h"
#include "src/schedule/algorithms/ring.h"
#include "src/schedule/bounds/cut_bound.h"
#include "src/schedule/check/check.h"
#include "tests/support/sanitized.h"
#include "tests/unit/schedule/fabrics.h"
#include "tests/unit/schedule/testing.h"

namespace harmonaize {
namespace {

constexpr Collective kTreeCollectives[] = {Collective::kAllGather, Collective::kReduceScatter,
                                           Collective::kBroadcast, Collective::kReduce,
                                           Collective::kAllReduce};

std::vector<int> OneEach(int hosts) {
  std::vector<int> host_of_rank;
  for (int host = 0; host < hosts; ++host) host_of_rank.push_back(host);
  return host_of_rank;
}

Problem ProblemOf(Collective collective, const std::vector<int>& host_of_rank, int root = 1) {
  return {collective, host_of_rank, HasRoot(collective) ? root : -1, true};
}

double TimeOf(const CapacityGraph& fabric, const Problem& problem) {
  const Result<CutBound> bound = BoundOf(fabric, problem);
  EXPECT_TRUE(bound.ok()) << bound.status().ToString();
  return bound.ok() ? bound->time() : -1;
}

// --- The bound, where it can be told by hand.

TEST(CutBoundTest, OfOneSwitch) {
  const CapacityGraph fabric = OneSwitch({10, 10, 10, 10});
  const std::vector<int> ranks = OneEach(4);
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kAllGather, ranks)), 0.3);
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kReduceScatter, ranks)), 0.3);
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kBroadcast, ranks)), 0.1);
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kReduce, ranks)), 0.1);
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kAllReduce, ranks)), 2 * 3.0 / 4 / 10);
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kAllToAll, ranks)), 0.3);
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kGather, ranks)), 0.3);
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kScatter, ranks)), 0.3);
  EXPECT_EQ(TimeOf(fabric, ProblemOf(Collective::kAllGather, {2, 2, 2})), 0);
}

TEST(CutBoundTest, OfUnequalRanks) {
  // Host 0 has three of four ranks: the other one gets three units, and gives one.
  const CapacityGraph fabric = OneSwitch({10, 10});
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kAllGather, {0, 0, 1, 0})), 0.3);
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kReduceScatter, {0, 0, 1, 0})), 0.3);
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kAllToAll, {0, 0, 1, 0})), 0.3);
}

TEST(CutBoundTest, OfOversubscribedRacks) {
  // Two racks of four hosts with 10 each, and uplinks of 2 * 5: four units go through 10.
  const CapacityGraph fabric = Racks({4, 4}, 10, 2, 5);
  const Result<CutBound> bound = BoundOf(fabric, ProblemOf(Collective::kAllGather, OneEach(8)));
  ASSERT_TRUE(bound.ok());
  EXPECT_DOUBLE_EQ(bound->time(), 0.7);  // the 7 units that each host gets through its own link
  const CapacityGraph narrow = Racks({4, 4}, 10, 2, 2);
  const Result<CutBound> racks = BoundOf(narrow, ProblemOf(Collective::kAllGather, OneEach(8)));
  ASSERT_TRUE(racks.ok());
  EXPECT_EQ(racks->demand, 1);
  EXPECT_EQ(racks->capacity, 1);
  // All hosts of one rack are on the sending side, and none of the other.
  int senders = 0;
  for (int node = 0; node < narrow.nodes(); ++node) {
    if (narrow.host_of_node[static_cast<size_t>(node)] < 0) continue;
    senders += racks->from_side[static_cast<size_t>(node)] ? 1 : 0;
  }
  EXPECT_EQ(senders, 4);
  EXPECT_DOUBLE_EQ(TimeOf(narrow, ProblemOf(Collective::kAllToAll, OneEach(8))), 4.0);
}

TEST(CutBoundTest, SlowHostsAreRootsOfAllReduces) {
  // The host at 25 gets half of the unit and is the root of the other half, in each phase; with
  // equal shares it would get three quarters.
  const CapacityGraph fabric = OneSwitch({100, 50, 25, 100});
  const Result<std::vector<bool>> roots = AllReduceRoots(fabric, HostPlacement(OneEach(4)));
  ASSERT_TRUE(roots.ok());
  EXPECT_EQ(*roots, (std::vector<bool>{false, true, true, false}));
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kAllReduce, OneEach(4))), 2 * 0.5 / 25);
  const Result<std::vector<bool>> all =
      AllReduceRoots(OneSwitch({5, 5, 5}), HostPlacement(OneEach(3)));
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(*all, std::vector<bool>(3, true));
}

TEST(CutBoundTest, OfOneWayLinks) {
  // A circle in one direction: everything passes every edge.
  CapacityGraph fabric;
  for (int host = 0; host < 3; ++host) fabric.AddHost(host);
  for (int host = 0; host < 3; ++host) fabric.edges.push_back({host, (host + 1) % 3, 4});
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kAllGather, OneEach(3))), 0.5);
  EXPECT_DOUBLE_EQ(TimeOf(fabric, ProblemOf(Collective::kReduce, OneEach(3), 0)), 0.25);
}

TEST(CutBoundTest, IsTheWorstOfAllCuts) {
  // Against all subsets of the nodes of small fabrics.
  for (unsigned seed = 0; seed < 60; ++seed) {
    const CapacityGraph fabric = RandomFabric(4, 3, 9, seed);
    const Problem problem = ProblemOf(Collective::kAllGather, {0, 1, 1, 2, 3, 0, 0});
    const HostPlacement placement(problem.host_of_rank);
    double worst = 0;
    for (unsigned set = 0; set < 1u << fabric.nodes(); ++set) {
      double shares = 0;
      double capacity = 0;
      bool all_inside = true;
      for (int node = 0; node < fabric.nodes(); ++node) {
        const int host = fabric.host_of_node[static_cast<size_t>(node)];
        const bool inside = (set >> node & 1) != 0;
        if (host >= 0 && inside) shares += static_cast<double>(placement.RanksAt(host).size());
        if (host >= 0 && !inside) all_inside = false;
      }
      for (const CapacityGraph::Edge& edge : fabric.edges) {
        const bool crosses = (set >> edge.from & 1) != 0 && (set >> edge.to & 1) == 0;
        capacity += crosses ? static_cast<double>(edge.capacity) : 0;
      }
      if (!all_inside && shares > 0) worst = std::max(worst, shares / capacity);
    }
    EXPECT_DOUBLE_EQ(TimeOf(fabric, problem), worst) << seed;
  }
}

TEST(CutBoundTest, NamesWhatIsWrong) {
  CapacityGraph fabric = OneSwitch({1, 1});
  const auto error = [&](const std::vector<int>& host_of_rank) {
    return BoundOf(fabric, ProblemOf(Collective::kAllGather, host_of_rank)).status().message();
  };
  EXPECT_NE(error({0, 1, 5}).find("host 5 has no node"), std::string::npos);
  fabric.AddHost(7);
  EXPECT_NE(error({0, 1, 7}).find("no way for all data to host"), std::string::npos);
  EXPECT_EQ(error({0, 1}), "");
  fabric.AddHost(7);
  EXPECT_NE(error({0, 1}).find("host 7 has two nodes"), std::string::npos);
  fabric.host_of_node.pop_back();
  fabric.edges.push_back({0, 9, 1});
  EXPECT_NE(error({0, 1}).find("node 9"), std::string::npos);
  fabric.edges.back() = {0, 1, 0};
  EXPECT_NE(error({0, 1}).find("capacity 0"), std::string::npos);
}

// --- Packed trees.

struct FabricCase {
  const char* name;
  CapacityGraph fabric;
  std::vector<int> host_of_rank;
};

std::vector<FabricCase> Fabrics() {
  return {
      {"OneSwitch", OneSwitch({100, 100, 100, 100, 100}), OneEach(5)},
      {"OneSwitchUnequalRanks", OneSwitch({100, 100, 100}), {0, 1, 0, 2, 0, 1}},
      {"UnequalInterfaces", OneSwitch({100, 50, 25, 100}), OneEach(4)},
      {"TwoRacksFourSpinesFull", Racks({4, 4}, 100, 4, 100), OneEach(8)},
      {"TwoRacksOversubscribed", Racks({4, 4}, 100, 2, 50), OneEach(8)},
      {"TwoRacksVeryOversubscribed", Racks({4, 4}, 100, 1, 25), OneEach(8)},
      {"UnequalRacks", Racks({5, 2, 1}, 100, 2, 50), OneEach(8)},
      {"UnequalRacksAndRanks", Racks({3, 1, 2}, 40, 2, 20), {0, 1, 1, 2, 3, 4, 4, 4, 5}},
      {"HostRing", HostRing(6, 10), OneEach(6)},
      {"TwoRails", Rails(4, {100, 100}), OneEach(4)},
      {"UnequalRails", Rails(4, {100, 50}), OneEach(4)},
      {"FourHostsInTwoRacks", Racks({2, 2}, 100, 2, 50), {0, 0, 1, 1, 2, 2, 3, 3}},
      {"PairOfHosts", HostRing(2, 7), {0, 1, 1}},
      {"OneHostOfMany", OneSwitch({1, 1, 1}), {1, 1}},
      {"SomeHostsOfMany", Racks({3, 3}, 100, 1, 100), {0, 2, 4, 4}},
  };
}

class PackingTest : public testing::TestWithParam<FabricCase> {};

TEST_P(PackingTest, LoadsTheWorstCutAsTheBoundSays) {
  const CapacityGraph& fabric = GetParam().fabric;
  for (const Collective collective : kTreeCollectives) {
    const Problem problem = ProblemOf(collective, GetParam().host_of_rank);
    const OutlineResult outline = MakePackedTrees(problem, fabric, 1000, 1);
    ASSERT_TRUE(outline.ok()) << outline.status().ToString();
    ExpectSound(**outline, kSanitized ? 1 : 3);
    const Result<double> time =
        BusiestEdgeTime(fabric, (*outline)->routes(), (*outline)->Summarize());
    ASSERT_TRUE(time.ok()) << time.status().ToString();
    const double bound = TimeOf(fabric, problem);
    if (collective == Collective::kAllReduce) {
      EXPECT_LE(*time, bound * (1 + 1e-9)) << CollectiveName(collective);
    } else {
      EXPECT_NEAR(*time, bound, bound * 1e-9) << CollectiveName(collective);
    }
  }
}

TEST_P(PackingTest, RoutesLeadFromHostToHost) {
  const CapacityGraph& fabric = GetParam().fabric;
  for (const Collective collective : kTreeCollectives) {
    const OutlineResult outline =
        MakePackedTrees(ProblemOf(collective, GetParam().host_of_rank), fabric, 1000, 1);
    ASSERT_TRUE(outline.ok());
    for (const auto& [hosts, routes] : (*outline)->routes()) {
      for (const Route& route : routes) {
        ASSERT_FALSE(route.empty());
        const auto edge = [&](int index) { return fabric.edges[static_cast<size_t>(index)]; };
        const auto host = [&](int node) { return fabric.host_of_node[static_cast<size_t>(node)]; };
        EXPECT_EQ(host(edge(route.front()).from), hosts.first);
        EXPECT_EQ(host(edge(route.back()).to), hosts.second);
        for (size_t i = 1; i < route.size(); ++i) {
          EXPECT_EQ(edge(route[i - 1]).to, edge(route[i]).from);
          EXPECT_EQ(host(edge(route[i]).from), -1);  // hosts pass nothing on but in steps
        }
      }
    }
  }
}

TEST_P(PackingTest, AFewTreesTakeALittleLonger) {
  const CapacityGraph& fabric = GetParam().fabric;
  for (const Collective collective : kTreeCollectives) {
    const Problem problem = ProblemOf(collective, GetParam().host_of_rank);
    const double bound = TimeOf(fabric, problem);
    for (const int most : {1, 3, 8}) {
      const OutlineResult outline = MakePackedTrees(problem, fabric, most, 2);
      ASSERT_TRUE(outline.ok()) << outline.status().ToString();
      const Summary summary = (*outline)->Summarize();
      EXPECT_LE(summary.pieces, 2 * most);
      if (!kSanitized) ExpectSound(**outline, 1);
      const Result<double> time = BusiestEdgeTime(fabric, (*outline)->routes(), summary);
      ASSERT_TRUE(time.ok());
      RecordProperty(fmt::format("{}_{}", CollectiveName(collective), most),
                     bound > 0 ? fmt::format("{:.3f}", *time / bound) : "1");
      // Every edge over the cut may lack less than one tree; no fabric here has more than 4.
      EXPECT_LE(*time, bound * (1 + 4.0)) << CollectiveName(collective) << " " << most;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, PackingTest, testing::ValuesIn(Fabrics()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(RandomPackingTest, ReachesTheBoundOnAnyFabric) {
  for (unsigned seed = 0; seed < (kSanitized ? 5u : 40u); ++seed) {
    const CapacityGraph fabric = RandomFabric(3 + static_cast<int>(seed % 4), 3, 3, seed);
    std::vector<int> host_of_rank = OneEach(3 + static_cast<int>(seed % 4));
    host_of_rank.push_back(static_cast<int>(seed % 3));
    for (const Collective collective : kTreeCollectives) {
      const Problem problem = ProblemOf(collective, host_of_rank);
      const OutlineResult outline = MakePackedTrees(problem, fabric, 1000, 1);
      ASSERT_TRUE(outline.ok()) << outline.status().ToString();
      const Status status = Check((*outline)->Write());
      ASSERT_TRUE(status.ok()) << status.ToString();
      const Result<double> time =
          BusiestEdgeTime(fabric, (*outline)->routes(), (*outline)->Summarize());
      ASSERT_TRUE(time.ok());
      const double bound = TimeOf(fabric, problem);
      EXPECT_LE(*time, bound * (1 + 1e-9)) << seed << " " << CollectiveName(collective);
    }
  }
}

TEST(RandomPackingTest, OneWayCapacitiesStillGetTrees) {
  // In and out of the switch differ: trees are found, if not always the best.
  CapacityGraph fabric = OneSwitch({8, 8, 8});
  fabric.edges[0].capacity = 20;
  fabric.edges[3].capacity = 5;
  for (const Collective collective : kTreeCollectives) {
    const Problem problem = ProblemOf(collective, OneEach(3));
    const OutlineResult outline = MakePackedTrees(problem, fabric, 64, 1);
    ASSERT_TRUE(outline.ok()) << outline.status().ToString();
    ExpectSound(**outline, 2);
    const Result<double> time =
        BusiestEdgeTime(fabric, (*outline)->routes(), (*outline)->Summarize());
    ASSERT_TRUE(time.ok());
    EXPECT_LE(*time, 1.5 * TimeOf(fabric, problem)) << CollectiveName(collective);
  }
}

TEST(PackedTreesTest, BeatRingsOnOversubscribedRacks) {
  const CapacityGraph fabric = Racks({4, 4}, 100, 1, 100);
  const Problem problem = ProblemOf(Collective::kAllGather, OneEach(8));
  const OutlineResult packed = MakePackedTrees(problem, fabric, 64, 1);
  ASSERT_TRUE(packed.ok());
  const Result<double> time = BusiestEdgeTime(fabric, (*packed)->routes(), (*packed)->Summarize());
  ASSERT_TRUE(time.ok());
  // A ring of alternating racks sends all units over each of four hops at once.
  EXPECT_NEAR(*time, 7.0 / 100, 1e-9);
  EXPECT_GT(4 * 7.0 / 100, *time);
}

TEST(PackedTreesTest, AreFlatOnOneSwitch) {
  const OutlineResult outline = MakePackedTrees(ProblemOf(Collective::kAllGather, OneEach(8)),
                                                OneSwitch(std::vector<int64_t>(8, 100)), 64, 1);
  ASSERT_TRUE(outline.ok());
  EXPECT_EQ((*outline)->Summarize().dependent_messages, 1);
}

TEST(PackedTreesTest, RefuseWhatTheyCannotDo) {
  const CapacityGraph fabric = OneSwitch({1, 1});
  const auto error = [&](Collective collective, int most, int pieces) {
    return MakePackedTrees(ProblemOf(collective, {0, 1}), fabric, most, pieces).status().message();
  };
  EXPECT_NE(error(Collective::kAllToAll, 8, 1).find("does not carry out"), std::string::npos);
  EXPECT_NE(error(Collective::kAllGather, 0, 1).find("0 trees at most"), std::string::npos);
  EXPECT_NE(error(Collective::kAllGather, 8, 0).find("0 pieces"), std::string::npos);
}

}  // namespace
}  // namespace harmonaize
