#include "src/planner/cost_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "src/planner/fabric_bound.h"
#include "src/schedule/algorithms/ring.h"
#include "src/schedule/algorithms/rooted_tree.h"
#include "src/topology/fabric/fat_tree.h"
#include "tests/unit/planner/fabrics.h"

namespace harmonaize {
namespace {

// Nothing costs anything but the links.
NetworkCosts LinksAlone() {
  return {.message_seconds = 0,
          .link_seconds = 0,
          .handling_seconds = 0,
          .chunk_bytes = 1,
          .eager_bytes = UINT64_MAX,
          .memory_bytes_per_second = 1e30,
          .payload_share = 1,
          .idle_parts = 0};
}

Prediction Predicted(const FabricModel& model, const OutlineResult& outline, uint64_t bytes,
                     int pieces, const NetworkCosts& costs, PathUse use = PathUse::kWeighted) {
  EXPECT_TRUE(outline.ok()) << outline.status().message();
  LoadSpread spread(model, use);
  const Footprint footprint = MakeFootprint(model, (*outline)->Summarize(), &spread, costs);
  return Predict(footprint, bytes, pieces, costs);
}

// one-rack: four hosts of 31.25 MB/s.
TEST(CostModelTest, ARingTakesTwiceThreeQuartersOfTheDataByTheRate) {
  const FabricModel model = ShippedFabric("one-rack");
  const Problem problem = ProblemOn(model, Collective::kAllReduce);
  const OutlineResult ring = MakeRings(problem, {{}}, 1);
  const Prediction links = Predicted(model, ring, 31'250'000, 1, LinksAlone());
  EXPECT_NEAR(links.seconds, 1.5, 1e-9);
  EXPECT_NEAR(links.fill, 0, 1e-9);

  NetworkCosts costs = LinksAlone();
  costs.message_seconds = 1e-3;
  costs.link_seconds = 1e-4;
  // Six messages in a row, over two links each.
  EXPECT_NEAR(Predicted(model, ring, 31'250'000, 1, costs).latency, 6 * 1.2e-3, 1e-9);
  costs.payload_share = 0.5;
  EXPECT_NEAR(Predicted(model, ring, 31'250'000, 1, costs).network, 3.0, 1e-9);
}

TEST(CostModelTest, AChainFillsWithOnePieceForEachHop) {
  const FabricModel model = ShippedFabric("one-rack");
  const Problem problem = ProblemOn(model, Collective::kBroadcast);
  const OutlineResult chain = MakeRootedTrees(problem, TreeShape::kChain, {}, 1);
  for (const int pieces : {1, 10}) {
    const Prediction predicted = Predicted(model, chain, 31'250'000, pieces, LinksAlone());
    EXPECT_NEAR(predicted.network, 1.0, 1e-9);
    EXPECT_NEAR(predicted.fill, 3.0 / pieces, 1e-9);
  }
}

TEST(CostModelTest, TheRootOfAStarSendsToAll) {
  const FabricModel model = ShippedFabric("one-rack");
  const Problem problem = ProblemOn(model, Collective::kBroadcast);
  const OutlineResult star = MakeRootedTrees(problem, TreeShape::kStar, {}, 1);
  const Prediction predicted = Predicted(model, star, 31'250'000, 1, LinksAlone());
  EXPECT_NEAR(predicted.network, 3.0, 1e-9);
  EXPECT_EQ(model.fabric().EdgeAt(predicted.busiest_edge).from, 0);
}

TEST(CostModelTest, MemoryAndMessagesCount) {
  const FabricModel model = ShippedFabric("one-rack");
  const OutlineResult ring = MakeRings(ProblemOn(model, Collective::kAllReduce, 2), {{}}, 1);
  const Summary summary = (*ring)->Summarize();
  NetworkCosts costs = LinksAlone();
  costs.memory_bytes_per_second = 1e3;
  costs.handling_seconds = 2;
  costs.chunk_bytes = 1 << 30;
  const Prediction predicted = Predicted(model, ring, 4000, 1, costs);
  const double blocks = static_cast<double>(summary.hosts[0].read + summary.hosts[0].written);
  EXPECT_NEAR(predicted.memory, blocks * 1000 / 1e3, 1e-9);
  EXPECT_NEAR(predicted.handling, 12 * 2, 1e-9);  // sends 6, and as many come
}

TEST(CostModelTest, SharedProcessorsDoTheWorkOfAllHosts) {
  const FabricModel model = ShippedFabric("one-rack");
  const OutlineResult ring = MakeRings(ProblemOn(model, Collective::kAllReduce), {{}}, 1);
  NetworkCosts costs = LinksAlone();
  costs.handling_seconds = 2;
  costs.chunk_bytes = 1 << 30;
  costs.shared_processors = 2;
  // Four hosts send six messages each and get as many, which is what two processors have to do.
  EXPECT_NEAR(Predicted(model, ring, 4, 1, costs).handling, 4 * 12 * 2 / 2.0, 1e-9);
  // More processors than hosts do not help the busiest one.
  costs.shared_processors = 64;
  EXPECT_NEAR(Predicted(model, ring, 4, 1, costs).handling, 12 * 2, 1e-9);
}

TEST(CostModelTest, ProcessorsSendAndReceiveEachByte) {
  const FabricModel model = ShippedFabric("one-rack");
  const OutlineResult ring = MakeRings(ProblemOn(model, Collective::kAllReduce), {{}}, 1);
  NetworkCosts costs = LinksAlone();
  costs.wire_bytes_per_second = 1e3;
  // Each host sends six quarters, and gets as many: longer than its link takes.
  const Prediction own = Predicted(model, ring, 4000, 1, costs);
  EXPECT_NEAR(own.handling, 12 * 1000 / 1e3, 1e-9);
  EXPECT_GE(own.seconds, own.handling);
  costs.shared_processors = 2;
  EXPECT_NEAR(Predicted(model, ring, 4000, 1, costs).handling, 4 * 12 * 1000 / 1e3 / 2, 1e-9);
}

TEST(CostModelTest, WhatSendsALongMessagesBytesIsItsHandling) {
  const FabricModel model = ShippedFabric("one-rack");
  const OutlineResult ring = MakeRings(ProblemOn(model, Collective::kAllReduce), {{}}, 1);
  NetworkCosts costs = LinksAlone();
  costs.wire_bytes_per_second = 1e3;
  costs.handling_seconds = 0.5;
  costs.chunk_bytes = 1 << 30;
  costs.eager_bytes = 1000;
  EXPECT_NEAR(Predicted(model, ring, 4000, 1, costs).handling, 12 * 1000 / 1e3, 1e-9);
  // Shorter messages cost the more for their bytes, the shorter they are.
  const double sent = 12 * 1000 / 1e3;
  EXPECT_NEAR(Predicted(model, ring, 4000, 10, costs).handling, sent + 10 * 12 * 0.5 * 0.9, 1e-9);
}

TEST(CostModelTest, LongMessagesAreOfferedFirst) {
  const FabricModel model = ShippedFabric("one-rack");
  const OutlineResult ring = MakeRings(ProblemOn(model, Collective::kAllReduce), {{}}, 1);
  NetworkCosts costs = LinksAlone();
  costs.handling_seconds = 2;
  costs.chunk_bytes = 1 << 30;
  costs.message_seconds = 0.25;
  costs.eager_bytes = 1000;
  const Prediction at_once = Predicted(model, ring, 4000, 1, costs);
  const Prediction offered = Predicted(model, ring, 4004, 1, costs);
  EXPECT_NEAR(at_once.handling, 12 * 2, 1e-9);
  EXPECT_NEAR(offered.handling, 3 * at_once.handling, 1e-9);
  EXPECT_NEAR(offered.latency, 3 * at_once.latency, 1e-9);
  // In parts that are short enough it goes at once.
  EXPECT_NEAR(Predicted(model, ring, 4004, 2, costs).handling, 2 * 12 * 2, 1e-9);
}

TEST(CostModelTest, PartsThatFollowEachOtherLeaveLinksIdleForSomeOfThem) {
  const FabricModel model = ShippedFabric("one-rack");
  const OutlineResult ring = MakeRings(ProblemOn(model, Collective::kAllReduce), {{}}, 1);
  NetworkCosts costs = LinksAlone();
  costs.idle_parts = 2;
  EXPECT_NEAR(Predicted(model, ring, 31'250'000, 100, costs).seconds, 1.5 * (1 + 2.0 / 109), 1e-9);
  // Of few parts there is less.
  EXPECT_NEAR(Predicted(model, ring, 31'250'000, 1, costs).seconds, 1.5 * 1.2, 1e-9);
}

TEST(CostModelTest, CreditMakesUpForIdlenessAndNoMore) {
  const FabricModel model = ShippedFabric("one-rack");
  const Problem problem = ProblemOn(model, Collective::kBroadcast);
  const OutlineResult chain = MakeRootedTrees(problem, TreeShape::kChain, {}, 1);
  NetworkCosts costs = LinksAlone();
  costs.credit_seconds = 0.1;
  const Prediction some = Predicted(model, chain, 31'250'000, 10, costs);
  EXPECT_NEAR(some.seconds, 1.3 - 0.1, 1e-9);
  EXPECT_NEAR(some.without_credit(), 1.3, 1e-9);
  costs.credit_seconds = 5;
  EXPECT_NEAR(Predicted(model, chain, 31'250'000, 10, costs).seconds, 1.0, 1e-9);
  // What hosts have to do links cannot make up for.
  costs.handling_seconds = 10;
  costs.chunk_bytes = 1 << 30;
  EXPECT_NEAR(Predicted(model, chain, 31'250'000, 1, costs).seconds, 2 * 10, 1e-9);
}

TEST(CostModelTest, FewPartsAtOnceAreARowOfRows) {
  const FabricModel model = ShippedFabric("one-rack");
  const OutlineResult ring = MakeRings(ProblemOn(model, Collective::kAllReduce), {{}}, 1);
  NetworkCosts costs = LinksAlone();
  LoadSpread spread(model, PathUse::kWeighted);
  costs.message_seconds = 0.01;
  const Footprint footprint = MakeFootprint(model, (*ring)->Summarize(), &spread, costs);
  // A row of messages takes what the links take for the part, and 0.06 s.
  EXPECT_EQ(PartsAtOnce(footprint, 31'250'000, 10, LinksAlone()), 4);
  EXPECT_EQ(PartsAtOnce(footprint, 31'250'000, 1000, costs), 16);
  const Prediction predicted = Predict(footprint, 31'250'000, 1000, costs);
  EXPECT_NEAR(predicted.row, (0.06 + 0.0015) * 1000 / 16, 1e-9);
  EXPECT_NEAR(predicted.seconds, 0.06 + predicted.row, 1e-9);
}

TEST(CostModelTest, AMessageTakesOneLane) {
  // Of 500 Mbit each.
  const FabricModel rails = ShippedFabric("rails");
  LoadSpread spread(rails, PathUse::kEcmp);
  const std::vector<Load> loads = {{.from_host = 0, .to_host = 2, .blocks = 8}};
  EXPECT_NEAR(spread.TimesOfMessages(loads).slowest, 1 / 62.5e6, 1e-18);
  EXPECT_NEAR(spread.TimesOfMessages(loads).mean, 1 / 62.5e6, 1e-18);
}

TEST(CostModelTest, TheMeanOfMessagesIsOverBlocks) {
  // host0 has 250 Mbit/s, host4 and host5 have 500.
  const FabricModel model = ShippedFabric("three-racks-unequal");
  LoadSpread spread(model, PathUse::kEcmp);
  const MessageTimes times = spread.TimesOfMessages(
      {{.from_host = 0, .to_host = 1, .blocks = 1}, {.from_host = 4, .to_host = 5, .blocks = 3}});
  EXPECT_NEAR(times.slowest, 1 / 31.25e6, 1e-18);
  EXPECT_NEAR(times.mean, 0.25 / 31.25e6 + 0.75 / 62.5e6, 1e-18);
}

// Four connections over two spines in either direction: an even spread would take 3 units of time,
// three on one spine 4.5, all four 6. The mean of the longer of both directions is 4.64.
TEST(CostModelTest, EcmpIsExpectedToCollide) {
  const FabricModel model = ShippedFabric("two-racks");
  const Problem problem = AcrossTheRacks(model);
  const OutlineResult ring = MakeRings(problem, {{{0, 2, 1, 3}}}, 1);
  const uint64_t bytes = 125'000'000;  // a unit of time at 1 Gbit/s
  EXPECT_NEAR(Predicted(model, ring, bytes, 1, LinksAlone()).network, 3.0, 1e-9);
  const double hashed = Predicted(model, ring, bytes, 1, LinksAlone(), PathUse::kEcmp).network;
  EXPECT_GT(hashed, 4.1);
  EXPECT_LT(hashed, 5.2);
}

// Several connections with a choice among them do not: they are as good as explicit paths.
TEST(CostModelTest, SpreadRailsAreExpectedToFillAllWays) {
  const FabricModel with_paths = ShippedFabric("two-racks");
  Fabric fabric = with_paths.fabric();
  fabric.explicit_paths = 0;
  const FabricModel model(fabric);
  const OutlineResult ring = MakeRings(AcrossTheRacks(model), {{{0, 2, 1, 3}}}, 1);
  const uint64_t bytes = 125'000'000;
  EXPECT_NEAR(Predicted(model, ring, bytes, 1, LinksAlone()).network, 3.0, 1e-9);
  EXPECT_NEAR(Predicted(model, ring, bytes, 1, LinksAlone(), PathUse::kEcmp).network,
              Predicted(with_paths, ring, bytes, 1, LinksAlone(), PathUse::kEcmp).network, 1e-9);
}

TEST(CostModelTest, WhereWaysAreBalancedMoreIsUnderWay) {
  const FabricModel with_paths = ShippedFabric("two-racks");
  Fabric fabric = with_paths.fabric();
  fabric.explicit_paths = 0;
  const auto at_once = [](const FabricModel& model, PathUse use) {
    const OutlineResult ring = MakeRings(AcrossTheRacks(model), {{{0, 1, 2, 3}}}, 1);
    LoadSpread spread(model, use);
    const Footprint footprint = MakeFootprint(model, (*ring)->Summarize(), &spread, LinksAlone());
    return PartsAtOnce(footprint, 31'250'000, 1000, LinksAlone());
  };
  EXPECT_LT(at_once(with_paths, PathUse::kWeighted), 12);
  EXPECT_EQ(at_once(FabricModel(fabric), PathUse::kWeighted), 12);
  EXPECT_EQ(at_once(FabricModel(fabric), PathUse::kEcmp), at_once(with_paths, PathUse::kEcmp));
}

TEST(CostModelTest, SpreadLoadsFollowWhatWaysCarry) {
  Fabric fabric = ShippedFabric("three-racks-unequal").fabric();
  fabric.explicit_paths = 0;
  const FabricModel model(fabric);
  const std::vector<Load> loads = {{.from_host = 4, .to_host = 6, .blocks = 70}};
  LoadSpread spread(model, PathUse::kWeighted);
  EXPECT_FALSE(spread.IsHashed(loads));
  const std::vector<EdgeLoad> edges = spread.Expected(loads);
  std::vector<double> on_ways;
  for (int edge = 0; edge < model.edges(); ++edge) {
    const double blocks = edges[static_cast<size_t>(edge)].blocks;
    if (blocks > 0 && blocks < 70) on_ways.push_back(blocks);
  }
  std::sort(on_ways.begin(), on_ways.end());
  // Up and down, over spines that carry 250 and 100 Mbit/s.
  ASSERT_EQ(on_ways.size(), 4u);
  EXPECT_NEAR(on_ways[0], 20, 1e-9);
  EXPECT_NEAR(on_ways[1], 20, 1e-9);
  EXPECT_NEAR(on_ways[3], 50, 1e-9);

  const std::vector<Lane> lanes = model.Lanes(4, 6, PathUse::kWeighted);
  const auto routes = SpreadRoutes(model, 4, 6, lanes.at(0), 64);
  ASSERT_EQ(routes.size(), 2u);
  EXPECT_NEAR(std::min(routes[0].second, routes[1].second), 2.0 / 7, 1e-9);
  EXPECT_NEAR(routes[0].second + routes[1].second, 1, 1e-9);
  for (const auto& [route, share] : routes) EXPECT_EQ(route.size(), 4u);
  const auto one = SpreadRoutes(model, 4, 6, lanes.at(0), 1);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_NEAR(one[0].second, 1, 1e-9);
}

TEST(CostModelTest, ExpectedLoadsAreEvenOverEqualWays) {
  const FabricModel model = ShippedFabric("two-racks");
  LoadSpread spread(model, PathUse::kEcmp);
  const std::vector<EdgeLoad> edges =
      spread.Expected({{.from_host = 0, .to_host = 2, .blocks = 8}});
  double over_spines = 0;
  for (int edge = 0; edge < model.edges(); ++edge) {
    const double blocks = edges[static_cast<size_t>(edge)].blocks;
    const Edge ends = model.fabric().EdgeAt(edge);
    const bool from_switch = model.fabric().nodes[static_cast<size_t>(ends.from)].nics.empty();
    const bool to_switch = model.fabric().nodes[static_cast<size_t>(ends.to)].nics.empty();
    EXPECT_TRUE(blocks == 0 || blocks == 4) << edge;
    if (from_switch && to_switch) over_spines += blocks;
  }
  EXPECT_DOUBLE_EQ(over_spines, 16);  // up and down
}

// Hosts laid together by kind and hosts laid one by one come to the same.
TEST(CostModelTest, ChosenLanesAndKindsAgree) {
  const FabricModel model = ShippedFabric("three-racks-unequal");
  std::vector<Load> loads;
  std::vector<Load> chosen_loads;
  LaneTable chosen;
  for (int from = 0; from < model.hosts(); ++from) {
    for (int to = 0; to < model.hosts(); ++to) {
      if (from == to) continue;
      const auto blocks = static_cast<uint64_t>(1 + from + 2 * to);
      loads.push_back({.from_host = from, .to_host = to, .blocks = blocks});
      chosen_loads.push_back({.from_host = from, .to_host = to, .path = 0, .blocks = blocks});
      chosen[{from, to}] = {model.Lanes(from, to, PathUse::kWeighted)};
    }
  }
  LoadSpread by_kind(model, PathUse::kWeighted);
  LoadSpread by_pair(model, PathUse::kWeighted, &chosen);
  const std::vector<EdgeLoad> a = by_kind.Expected(loads);
  const std::vector<EdgeLoad> b = by_pair.Expected(chosen_loads);
  const std::vector<EdgeLoad> c = by_kind.Hashed(loads, 7);  // explicit paths leave no choice
  for (size_t e = 0; e < a.size(); ++e) {
    EXPECT_NEAR(a[e].blocks, b[e].blocks, 1e-9);
    EXPECT_NEAR(a[e].blocks, c[e].blocks, 1e-9);
  }
}

TEST(FabricBoundTest, MergingWhatIsAlikeChangesNothing) {
  const FatTree tree{.hosts = 22,
                     .hosts_per_leaf = 3,
                     .leaves_per_pod = 2,
                     .spines_per_pod = 2,
                     .cores_per_spine = 2,
                     .host_rate = "100Gbit",
                     .uplink_rate = "60Gbit"};
  std::vector<FabricModel> models;
  models.push_back(FabricOf(FatTreeFile(tree).value()));
  for (const std::string& name : ShippedFabrics()) models.push_back(ShippedFabric(name));
  for (const FabricModel& model : models) {
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
          Collective::kBroadcast, Collective::kReduce}) {
      SCOPED_TRACE(model.fabric().name + " " + std::string(CollectiveName(collective)));
      Problem problem = ProblemOn(model, collective, 2);
      problem.host_of_rank.pop_back();  // one host with one rank
      const Result<double> exact = BoundSecondsPerByte(model, problem, 1000);
      const Result<double> merged = BoundSecondsPerByte(model, problem, 0);
      ASSERT_TRUE(exact.ok() && merged.ok());
      EXPECT_GT(*exact, 0);
      EXPECT_NEAR(*merged / *exact, 1, 1e-9);
    }
  }
}

TEST(FabricBoundTest, RacksBoundAnAllToAll) {
  const FatTree tree{.hosts = 32,
                     .hosts_per_leaf = 8,
                     .leaves_per_pod = 4,
                     .spines_per_pod = 2,
                     .host_rate = "8Gbit",
                     .uplink_rate = "8Gbit"};
  const FabricModel model = FabricOf(FatTreeFile(tree).value());
  // A rack's 8 ranks have a unit for each of 24 others, and 2 GB/s to send them.
  const Result<double> bound = BoundSecondsPerByte(model, ProblemOn(model, Collective::kAllToAll));
  ASSERT_TRUE(bound.ok());
  EXPECT_NEAR(*bound, 8 * 24 / 2e9, 1e-15);
  const Problem gather = ProblemOn(model, Collective::kGather);
  EXPECT_NEAR(BoundSecondsPerByte(model, gather).value(), 31 / 1e9, 1e-15);
}

}  // namespace
}  // namespace harmonaize
