#include "src/topology/inference/inference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "src/topology/fabric/fabric_file.h"
#include "src/topology/inference/clustering.h"
#include "tests/support/sanitized.h"
#include "tests/unit/topology/fluid_network.h"

namespace harmonaize {
namespace {

using Racks = std::set<std::set<std::string>>;

Fabric Shipped(const std::string& name) {
  Result<FabricFile> file = LoadFabricFile(FABRICS_FOLDER "/" + name + ".toml");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? file->fabric : Fabric();
}

/// Racks of these sizes with one NIC a host; each leaf has two uplinks of `uplink` of what its
/// hosts send, together.
Fabric Clos(const std::vector<int>& sizes, double uplink) {
  std::string text = "[[switch]]\nname = [\"spine0\", \"spine1\"]\nrole = \"spine\"\n";
  int host = 0;
  for (size_t rack = 0; rack < sizes.size(); ++rack) {
    text += fmt::format("[[switch]]\nname = \"leaf{}\"\n", rack);
    for (int i = 0; i < sizes[rack]; ++i, ++host) {
      text += fmt::format(
          "[[host]]\nname = \"host{0}\"\n[[link]]\nfrom = \"host{0}\"\nto = \"leaf{1}\"\n"
          "rate = \"10Gbit\"\n",
          host, rack);
    }
    text += fmt::format(
        "[[link]]\nfrom = \"leaf{}\"\nto = [\"spine0\", \"spine1\"]\n"
        "rate = \"{}Gbit\"\n",
        rack, 10 * sizes[rack] * uplink / 2);
  }
  Result<FabricFile> file = ParseFabricFile(text, "clos.toml");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? file->fabric : Fabric();
}

Racks ByLeaf(const Fabric& fabric) {
  std::map<int, std::set<std::string>> by_leaf;
  for (const int host : fabric.Hosts()) {
    const Node& node = fabric.nodes[static_cast<size_t>(host)];
    const Link& link = fabric.links[static_cast<size_t>(node.nics[0].link)];
    by_leaf[link.ends[0].node == host ? link.ends[1].node : link.ends[0].node].insert(node.name);
  }
  Racks racks;
  for (const auto& [leaf, hosts] : by_leaf) racks.insert(hosts);
  return racks;
}

InferredFabric InferFrom(const Measurements& measurements) {
  Result<InferredFabric> inferred = InferFabric(measurements, "inferred");
  EXPECT_TRUE(inferred.ok()) << inferred.status().message();
  return inferred.ok() ? *inferred : InferredFabric();
}

constexpr unsigned kSeeds = kSanitized ? 2 : 8;

TEST(Inference, FindsTheRacksOfEveryShippedFabric) {
  for (const char* name : {"one-rack", "two-racks", "three-racks-unequal", "rails"}) {
    const Fabric fabric = Shipped(name);
    for (unsigned seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(fmt::format("{} seed {}", name, seed));
      const InferredFabric inferred = InferFrom(FluidNetwork(fabric, {}, seed).Probe());
      EXPECT_EQ(ByLeaf(inferred.fabric), ByLeaf(fabric));
      EXPECT_FALSE(inferred.ring);
      EXPECT_GT(inferred.confidence, 0.5) << inferred.reason;
    }
  }
}

TEST(Inference, FindsARingAndItsOrder) {
  const Fabric fabric = Shipped("ring");
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    const InferredFabric inferred = InferFrom(FluidNetwork(fabric, {}, seed).Probe());
    ASSERT_TRUE(inferred.ring);
    ASSERT_EQ(inferred.fabric.links.size(), 4u);
    for (const Link& link : inferred.fabric.links) {
      const int apart = (link.ends[0].node - link.ends[1].node + 4) % 4;
      EXPECT_NE(apart, 2) << link.name;
      EXPECT_NEAR(link.bytes_per_second[0], 62.5e6, 7e6);
      EXPECT_NEAR(link.bytes_per_second[1], 62.5e6, 7e6);
    }
    EXPECT_GT(inferred.confidence, 0.8);
  }
}

TEST(Inference, KeepsUnjoinedRailsApart) {
  const InferredFabric inferred = InferFrom(FluidNetwork(Shipped("rails"), {}, 1).Probe());
  const Fabric& fabric = inferred.fabric;
  const FabricRouting routing(fabric);
  EXPECT_EQ(routing.EqualCostRoutes({0, 0}, {1, 0}).size(), 1u);
  EXPECT_TRUE(routing.EqualCostRoutes({0, 0}, {1, 1}).empty());
  for (const Link& link : fabric.links) EXPECT_NEAR(link.bytes_per_second[0], 62.5e6, 7e6);
}

TEST(Inference, FindsWhatUplinksCarry) {
  const InferredFabric inferred = InferFrom(FluidNetwork(Shipped("two-racks"), {}, 1).Probe());
  ASSERT_EQ(inferred.boundaries.size(), 2u);
  for (const RackBoundary& boundary : inferred.boundaries) {
    EXPECT_TRUE(boundary.limits_out && boundary.limits_in) << boundary.reason;
    EXPECT_NEAR(boundary.bytes_per_second_out, 125e6, 15e6);
    EXPECT_NEAR(boundary.bytes_per_second_in, 125e6, 15e6);
    EXPECT_GT(boundary.confidence, 0.8) << boundary.reason;
  }
}

TEST(Inference, NeedsNoLatencyWhereUplinksAreOversubscribed) {
  for (const std::vector<int>& sizes : {std::vector<int>{4, 4}, {3, 3}, {5, 3}, {4, 4, 4, 4}}) {
    const Fabric fabric = Clos(sizes, 0.5);
    for (unsigned seed = 0; seed < (kSanitized ? 1 : 4); ++seed) {
      SCOPED_TRACE(fmt::format("{} racks, first of {}, seed {}", sizes.size(), sizes[0], seed));
      FluidNetwork network(fabric, {.seconds_of_link = 0}, seed);
      EXPECT_EQ(ByLeaf(InferFrom(network.Probe()).fabric), ByLeaf(fabric));
    }
  }
}

TEST(Inference, NeedsNoContentionWhereLatencyIsClear) {
  const Fabric fabric = Clos({4, 2, 3, 1}, 1);
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    FluidNetwork network(fabric, {.rate = 0.01, .bad_round_trips = 0.05}, seed);
    EXPECT_EQ(ByLeaf(InferFrom(network.Probe()).fabric), ByLeaf(fabric)) << "seed " << seed;
  }
}

TEST(Inference, FindsTheSumOfUnequalUplinks) {
  // 2 x 500 Mbit/s for hosts of 4 x 250, 2 x 250 for 2 x 500, and 500 and 100 for one of 1000.
  const std::vector<double> carried = {125e6, 62.5e6, 75e6};
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const InferredFabric inferred =
        InferFrom(FluidNetwork(Shipped("three-racks-unequal"), {}, seed).Probe());
    ASSERT_EQ(inferred.boundaries.size(), 3u);
    for (size_t rack = 0; rack < 3; ++rack) {
      const RackBoundary& boundary = inferred.boundaries[rack];
      // The first would need all that the other two can take, and no connections that collide.
      const double off = (rack == 0 ? 0.25 : 0.1) * carried[rack];
      EXPECT_NEAR(boundary.bytes_per_second_out, carried[rack], off) << rack;
      EXPECT_NEAR(boundary.bytes_per_second_in, carried[rack], off) << rack;
    }
  }
}

/// Round trips that are exact but for what the whole machine does.
FluidNetwork::Noise WithPace(std::function<double(int)> pace) {
  return {.rate = 0.01, .round_trip = 0.003, .pace = std::move(pace)};
}

TEST(Inference, AMachineThatChangesItsPaceMakesNoRacks) {
  const Fabric one = Shipped("one-rack");
  const Fabric four = Clos({4, 2, 3, 1}, 1);
  for (const Fabric* fabric : {&one, &four}) {
    const Racks racks = ByLeaf(*fabric);
    const auto hosts = static_cast<int>(fabric->Hosts().size());
    const int pairs = hosts * (hosts - 1) / 2;
    for (const double after : {7.0 / 8, 4.0 / 3}) {
      for (int at = 1; at < 5 * pairs; at += (hosts == 4 ? 1 : 37) * (kSanitized ? 5 : 1)) {
        SCOPED_TRACE(fmt::format("{} hosts, {:.2f} after {} pairs", hosts, after, at));
        FluidNetwork network(*fabric, WithPace([=](int i) { return i < at ? 1 : after; }), 1);
        const InferredFabric inferred = InferFrom(network.Probe());
        EXPECT_EQ(ByLeaf(inferred.fabric), racks);
        EXPECT_GT(inferred.confidence, 0.6) << inferred.reason;
      }
    }
    for (const double rise : {-0.3, 0.5}) {
      const auto pace = [=](int i) { return 1 + rise * i / (5.0 * pairs); };
      EXPECT_EQ(ByLeaf(InferFrom(FluidNetwork(*fabric, WithPace(pace), 1).Probe()).fabric), racks);
    }
  }
}

TEST(Inference, AsksForRoundTripsInPassesThereAndBack) {
  const Fabric fabric = Shipped("rails");
  FluidNetwork network(fabric, {}, 1);
  Measurements measurements = network.NothingMeasured();
  std::vector<std::vector<std::pair<Endpoint, Endpoint>>> passes;
  for (;;) {
    const NextMeasurements next = NextProbes(measurements);
    if (next.round_trips.empty()) break;
    passes.push_back(next.round_trips);
    network.CarryOut(next, &measurements);
  }
  ASSERT_EQ(passes.size(), 5u);
  // All of six pairs of hosts with two NICs each; then those that reach each other.
  EXPECT_EQ(passes[0].size(), 24u);
  EXPECT_EQ(passes[1].size(), 12u);
  std::vector<std::pair<Endpoint, Endpoint>> backwards = passes[1];
  std::reverse(backwards.begin(), backwards.end());
  EXPECT_EQ(passes[2], backwards);
  EXPECT_EQ(passes[3], passes[1]);
}

TEST(Inference, IsLessSureWhereRepetitionsDisagree) {
  const Measurements steady = FluidNetwork(Shipped("one-rack"), WithPace(nullptr), 1).Probe();
  // Longer round trips between hosts 0 and 1 and hosts 2 and 3 in some passes.
  const auto disturbed = [&](const std::set<int>& passes) {
    Measurements measurements = steady;
    std::map<std::pair<int, int>, int> pass;
    for (RoundTrip& trip : measurements.round_trips) {
      const int a = std::min(trip.from.host, trip.to.host);
      const int b = std::max(trip.from.host, trip.to.host);
      const bool longer = a < 2 && b >= 2 && passes.contains(pass[{a, b}]);
      ++pass[{a, b}];
      for (double& seconds : trip.seconds) seconds *= longer ? 1.5 : 1;
    }
    return InferFrom(measurements);
  };
  const Racks one = {{"host0", "host1", "host2", "host3"}};
  const Racks two = {{"host0", "host1"}, {"host2", "host3"}};
  const auto unsteady = [](const InferredFabric& inferred) {
    return inferred.reason.find("unsteady") != std::string::npos;
  };
  const InferredFabric never = disturbed({});
  EXPECT_EQ(ByLeaf(never.fabric), one);
  EXPECT_FALSE(unsteady(never)) << never.reason;
  const InferredFabric always = disturbed({0, 1, 2, 3, 4});
  EXPECT_EQ(ByLeaf(always.fabric), two);
  EXPECT_FALSE(unsteady(always)) << always.reason;
  const InferredFabric mostly = disturbed({0, 1, 3});
  EXPECT_EQ(ByLeaf(mostly.fabric), two);
  EXPECT_TRUE(unsteady(mostly)) << mostly.reason;
  EXPECT_LT(mostly.confidence, 0.8 * always.confidence);
  EXPECT_EQ(ByLeaf(disturbed({2}).fabric), one);
}

TEST(Inference, SortsSixtyFourHostsIntoEightRacks) {
  if (kSanitized) GTEST_SKIP() << "takes a minute, and does nothing that fewer hosts do not";
  const Fabric fabric = Clos(std::vector<int>(8, 8), 0.5);
  for (const double seconds_of_link : {1e-6, 0.0}) {
    FluidNetwork network(fabric, {.seconds_of_link = seconds_of_link}, 1);
    const Measurements measurements = network.Probe();
    const InferredFabric inferred = InferFrom(measurements);
    EXPECT_EQ(ByLeaf(inferred.fabric), ByLeaf(fabric));
    EXPECT_EQ(inferred.boundaries.size(), 8u);
    EXPECT_GT(inferred.confidence, 0.5) << inferred.reason;
    EXPECT_LE(measurements.concurrent.size(), 63u + 8 * 2 * 3);
  }
}

TEST(Inference, IsUnsureOfWhatItCannotSee) {
  // Round trips that tell nothing, and hardly any transfers: racks cannot be seen.
  const Fabric fabric = Clos({4, 4}, 0.5);
  FluidNetwork network(fabric, {.rate = 0.3, .round_trip = 0.5, .seconds_of_link = 0}, 3);
  Measurements measurements = network.NothingMeasured();
  network.CarryOut(NextProbes(measurements), &measurements);
  const ProbeSets sets(measurements);
  for (int host = 0; host < sets.hosts(); ++host) {
    NextMeasurements next;
    next.transfers = sets.Alone(host, (host + 1) % sets.hosts());
    network.CarryOut(next, &measurements);
  }
  const InferredFabric inferred = InferFrom(measurements);
  EXPECT_LT(inferred.confidence, 0.4) << inferred.reason;
  EXPECT_FALSE(inferred.reason.empty());
  // The same fabric, when everything is asked and noise is ordinary.
  EXPECT_GT(InferFrom(FluidNetwork(fabric, {}, 3).Probe()).confidence, 0.8);
}

TEST(Inference, StopsAtItsBudget) {
  const Fabric fabric = Shipped("three-racks-unequal");
  EXPECT_EQ(FluidNetwork(fabric, {}, 1).Probe({.most_sets = 9}).concurrent.size(), 9u);
  const size_t whole = FluidNetwork(fabric, {}, 1).Probe().concurrent.size();
  EXPECT_GT(whole, 9u);
  EXPECT_LE(whole, 200u);
}

TEST(Inference, SaysWhatIsMissing) {
  const Fabric fabric = Shipped("one-rack");
  FluidNetwork network(fabric, {}, 1);
  Measurements measurements = network.NothingMeasured();
  Result<InferredFabric> inferred = InferFabric(measurements, "x");
  ASSERT_FALSE(inferred.ok());
  EXPECT_NE(inferred.status().message().find("round trips"), std::string::npos);
  network.CarryOut(NextProbes(measurements), &measurements);
  inferred = InferFabric(measurements, "x");
  ASSERT_FALSE(inferred.ok());
  EXPECT_NE(inferred.status().message().find("host 'host0'"), std::string::npos);
}

TEST(Inference, TheTournamentLetsEachMeetEachOnce) {
  for (const int hosts : {2, 3, 4, 7, 8, 64}) {
    Measurements measurements;
    for (int i = 0; i < hosts; ++i) {
      measurements.hosts.push_back({fmt::format("h{}", i), {{"nic0", "10.0.0.1"}}});
    }
    const ProbeSets sets(measurements);
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < sets.Rounds(); ++round) {
      std::set<int> busy;
      for (const auto& [a, b] : sets.PairsOfRound(round)) {
        EXPECT_LT(a, b);
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second);
        EXPECT_TRUE(met.emplace(a, b).second);
      }
    }
    EXPECT_EQ(met.size(), static_cast<size_t>(hosts * (hosts - 1) / 2)) << hosts;
  }
}

TEST(Clustering, SplitsJoinsAndJudges) {
  EXPECT_EQ(SplitInTwo({5, 5, 5}).separation, 0);
  const TwoClasses classes = SplitInTwo({1, 1.1, 0.9, 2, 2.1, 1.9, 2});
  EXPECT_DOUBLE_EQ(classes.low, 1);
  EXPECT_DOUBLE_EQ(classes.high, 2);
  EXPECT_GT(classes.separation, 10);
  PairMatrix distances(4, 1);
  distances.Set(0, 2, 0.1);
  distances.Set(1, 3, 0.2);
  const std::vector<int> clusters = ClusterByAverageLinkage(distances, 0.5);
  EXPECT_EQ(clusters, (std::vector<int>{0, 1, 0, 1}));
  const std::vector<double> silhouettes = Silhouettes(distances, clusters);
  EXPECT_DOUBLE_EQ(silhouettes[0], 0.9);
  EXPECT_DOUBLE_EQ(silhouettes[1], 0.8);
  EXPECT_EQ(ClusterByAverageLinkage(distances, 2), (std::vector<int>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace harmonaize
