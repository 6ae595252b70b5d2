// Links that lose their rates, seen by the flows over them: on the shipped two racks and others.

#include "src/topology/estimates/link_estimates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "src/topology/fabric/fabric_file.h"
#include "src/topology/fabric/fabric_routing.h"

namespace harmonaize {
namespace {

Fabric Load(const std::string& name) {
  Result<FabricFile> file = LoadFabricFile(std::string(FABRICS_FOLDER) + "/" + name + ".toml");
  EXPECT_TRUE(file.ok()) << file.status().message();
  return std::move(file->fabric);
}

/// Flows of a known fabric, max-min fair, with a queue wherever a link is full.
class Traffic {
 public:
  explicit Traffic(const Fabric& fabric) : edges_(fabric.Edges()) {
    for (const Edge& edge : edges_) actual_.push_back(edge.bytes_per_second);
  }

  void SetActual(int edge, double bytes_per_second) {
    actual_[static_cast<size_t>(edge)] = bytes_per_second;
  }
  /// A flow that sends no more than `most`; not busy if it gets that.
  void Add(std::vector<int> edges, double most = 1e18) {
    flows_.push_back({std::move(edges), most});
  }

  std::vector<FlowSample> Samples(double noise = 0) {
    const std::vector<double> rates = FairRates();
    std::vector<double> carried(edges_.size(), 0);
    for (size_t f = 0; f < flows_.size(); ++f) {
      for (const int edge : flows_[f].edges) carried[static_cast<size_t>(edge)] += rates[f];
    }
    std::vector<FlowSample> samples;
    for (size_t f = 0; f < flows_.size(); ++f) {
      FlowSample sample{.edges = flows_[f].edges, .bytes_per_second = rates[f]};
      sample.busy = rates[f] < flows_[f].most * 0.999 ? 1 : 0.3;
      for (const int edge : flows_[f].edges) {
        const auto e = static_cast<size_t>(edge);
        if (carried[e] >= 0.999 * actual_[e]) sample.queue_seconds += 5e-3;
      }
      std::normal_distribution<double> factor(1, noise);
      if (noise > 0) {
        sample.bytes_per_second *= factor(random_);
        sample.queue_seconds *= std::max(0.2, factor(random_));
      }
      samples.push_back(std::move(sample));
    }
    return samples;
  }

 private:
  struct Flow {
    std::vector<int> edges;
    double most;
  };

  std::vector<double> FairRates() const {
    std::vector<double> rates(flows_.size(), 0);
    std::vector<char> done(flows_.size(), 0);
    std::vector<double> left = actual_;
    for (size_t round = 0; round < flows_.size(); ++round) {
      double step = 1e18;
      for (size_t f = 0; f < flows_.size(); ++f) {
        if (done[f] == 0) step = std::min(step, flows_[f].most - rates[f]);
      }
      const std::vector<int> users = Users(done);
      for (size_t e = 0; e < left.size(); ++e) {
        if (users[e] > 0) step = std::min(step, left[e] / users[e]);
      }
      for (size_t f = 0; f < flows_.size(); ++f) {
        if (done[f] != 0) continue;
        rates[f] += step;
        for (const int edge : flows_[f].edges) left[static_cast<size_t>(edge)] -= step;
      }
      for (size_t f = 0; f < flows_.size(); ++f) {
        const auto& edges = flows_[f].edges;
        const bool full = std::any_of(edges.begin(), edges.end(), [&](int edge) {
          const auto e = static_cast<size_t>(edge);
          return left[e] <= 1e-9 * actual_[e];
        });
        if (full || rates[f] >= flows_[f].most) done[f] = 1;
      }
    }
    return rates;
  }
  std::vector<int> Users(const std::vector<char>& done) const {
    std::vector<int> users(edges_.size(), 0);
    for (size_t f = 0; f < flows_.size(); ++f) {
      if (done[f] != 0) continue;
      for (const int edge : flows_[f].edges) ++users[static_cast<size_t>(edge)];
    }
    return users;
  }

  std::vector<Edge> edges_;
  std::vector<double> actual_;
  std::vector<Flow> flows_;
  std::mt19937 random_{4711};
};

/// The edges from one node to another by way of others.
std::vector<int> Path(const Fabric& fabric, const std::vector<std::string>& nodes, int nic = -1) {
  std::vector<int> path;
  const std::vector<Edge> edges = fabric.Edges();
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    const int from = fabric.FindNode(nodes[i]);
    const int to = fabric.FindNode(nodes[i + 1]);
    int skip = i == 0 || i + 2 == nodes.size() ? std::max(nic, 0) : 0;
    for (size_t e = 0; e < edges.size(); ++e) {
      if (edges[e].from != from || edges[e].to != to || skip-- > 0) continue;
      path.push_back(static_cast<int>(e));
      break;
    }
  }
  EXPECT_EQ(path.size() + 1, nodes.size());
  return path;
}

int EdgeBetween(const Fabric& fabric, const std::string& from, const std::string& to) {
  return Path(fabric, {from, to}).front();
}

/// Both hosts of rack 0 send to both of rack 1, and back, each by a NIC and a spine of its own.
void AddAcross(const Fabric& fabric, Traffic* traffic) {
  for (int n = 0; n < 2; ++n) {
    const std::string spine = "spine" + std::to_string(n);
    const std::string left = "host" + std::to_string(n);
    const std::string right = "host" + std::to_string(2 + n);
    traffic->Add(Path(fabric, {left, "leaf0", spine, "leaf1", right}));
    traffic->Add(Path(fabric, {right, "leaf1", spine, "leaf0", left}));
  }
}

TEST(LinkEstimates, NothingIsKnownBeforeAnythingFlows) {
  const Fabric fabric = Load("two-racks");
  LinkEstimates estimates(fabric);
  estimates.Take({}, 1);
  for (int edge = 0; edge < estimates.edges(); ++edge) {
    const EdgeEstimate estimate = estimates.At(edge, 2);
    EXPECT_EQ(estimate.bytes_per_second, fabric.EdgeAt(edge).bytes_per_second);
    EXPECT_EQ(estimate.confidence, 0);
    EXPECT_TRUE(std::isinf(estimate.age_seconds));
  }
}

TEST(LinkEstimates, FullLinksAreWhatTheyAreSaidToBe) {
  const Fabric fabric = Load("two-racks");
  LinkEstimates estimates(fabric);
  Traffic traffic(fabric);
  AddAcross(fabric, &traffic);
  for (int i = 0; i < 20; ++i) estimates.Take(traffic.Samples(0.03), 0.1 * i);
  for (int edge = 0; edge < estimates.edges(); ++edge) {
    EXPECT_GT(estimates.At(edge, 2).bytes_per_second, 0.9 * fabric.EdgeAt(edge).bytes_per_second)
        << edge;
  }
}

TEST(LinkEstimates, ALinkThatLosesItsRateIsFound) {
  const Fabric fabric = Load("two-racks");
  Traffic traffic(fabric);
  AddAcross(fabric, &traffic);
  const int slow = EdgeBetween(fabric, "leaf0", "spine1");
  const double actual = 0.2 * fabric.EdgeAt(slow).bytes_per_second;
  LinkEstimates estimates(fabric);
  for (int i = 0; i < 10; ++i) estimates.Take(traffic.Samples(0.03), 0.1 * i);
  traffic.SetActual(slow, actual);
  for (int i = 10; i < 15; ++i) estimates.Take(traffic.Samples(0.03), 0.1 * i);
  const EdgeEstimate found = estimates.At(slow, 1.5);
  EXPECT_NEAR(found.bytes_per_second, actual, 0.15 * actual);
  EXPECT_GT(found.confidence, 0.8);
  // The other spine and the other direction are as they were.
  for (const auto& [from, to] : {std::pair("leaf0", "spine0"), std::pair("spine1", "leaf0"),
                                 std::pair("spine0", "leaf1"), std::pair("leaf1", "spine1")}) {
    const int edge = EdgeBetween(fabric, from, to);
    EXPECT_GT(estimates.At(edge, 1.5).bytes_per_second, 0.9 * fabric.EdgeAt(edge).bytes_per_second)
        << from << " " << to;
  }
}

// Flows that do not wait clear the links that they share with one that does.
TEST(LinkEstimates, WhatOthersPassFreelyIsNotGuilty) {
  const Fabric fabric = Load("one-rack");
  Traffic traffic(fabric);
  const double rate = fabric.EdgeAt(0).bytes_per_second;
  traffic.Add(Path(fabric, {"host0", "leaf0", "host1"}));
  traffic.Add(Path(fabric, {"host0", "leaf0", "host2"}), 0.2 * rate);
  traffic.Add(Path(fabric, {"host3", "leaf0", "host1"}), 0.1 * rate);
  const int down = EdgeBetween(fabric, "leaf0", "host1");
  traffic.SetActual(down, 0.3 * rate);
  LinkEstimates estimates(fabric);
  for (int i = 0; i < 5; ++i) estimates.Take(traffic.Samples(), 0.1 * i);
  EXPECT_NEAR(estimates.At(down, 0.5).bytes_per_second, 0.3 * rate, 0.02 * rate);
  EXPECT_EQ(estimates.At(EdgeBetween(fabric, "host0", "leaf0"), 0.5).bytes_per_second, rate);
  EXPECT_EQ(estimates.At(EdgeBetween(fabric, "leaf0", "host2"), 0.5).bytes_per_second, rate);
}

TEST(LinkEstimates, TwoBusyFlowsTellTheirLinksApart) {
  const Fabric fabric = Load("one-rack");
  Traffic traffic(fabric);
  const double rate = fabric.EdgeAt(0).bytes_per_second;
  traffic.Add(Path(fabric, {"host0", "leaf0", "host1"}));
  traffic.Add(Path(fabric, {"host2", "leaf0", "host1"}));
  traffic.Add(Path(fabric, {"host2", "leaf0", "host3"}));
  const int up = EdgeBetween(fabric, "host0", "leaf0");
  traffic.SetActual(up, 0.2 * rate);
  LinkEstimates estimates(fabric);
  for (int i = 0; i < 5; ++i) estimates.Take(traffic.Samples(), 0.1 * i);
  EXPECT_NEAR(estimates.At(up, 0.5).bytes_per_second, 0.2 * rate, 0.01 * rate);
  EXPECT_GT(estimates.At(EdgeBetween(fabric, "host2", "leaf0"), 0.5).bytes_per_second, 0.95 * rate);
}

/// Two racks, of which a link to a spine has had a fifth of its rate for half a second.
class SlowLink : public ::testing::Test {
 protected:
  SlowLink() {
    AddAcross(fabric, &traffic);
    traffic.SetActual(slow, 0.2 * stated);
    for (int i = 0; i < 5; ++i) estimates.Take(traffic.Samples(), 0.1 * i);
  }

  const Fabric fabric = Load("two-racks");
  const int slow = EdgeBetween(fabric, "leaf0", "spine1");
  const double stated = fabric.EdgeAt(slow).bytes_per_second;
  Traffic traffic{fabric};
  LinkEstimates estimates{fabric};
};

TEST_F(SlowLink, IsSeenToRecoverWhereItIsUsed) {
  ASSERT_LT(estimates.At(slow, 0.5).bytes_per_second, 0.3 * stated);
  traffic.SetActual(slow, stated);
  estimates.Take(traffic.Samples(), 0.6);
  EXPECT_GT(estimates.At(slow, 0.6).bytes_per_second, 0.9 * stated);
}

TEST_F(SlowLink, IsForgottenOrProbedWhereItIsNotUsedAnyMore) {
  const double confidence = estimates.At(slow, 0.5).confidence;
  EXPECT_LT(estimates.At(slow, 5).confidence, confidence);
  EXPECT_LT(estimates.At(slow, 5).bytes_per_second, 0.3 * stated);
  EXPECT_EQ(estimates.At(slow, 60).bytes_per_second, stated);
  EXPECT_EQ(estimates.At(slow, 60).confidence, 0);
  // A probe that gets as little changes nothing, one that gets more does.
  const std::vector<int> route = Path(fabric, {"host0", "leaf0", "spine1", "leaf1", "host2"});
  estimates.TakeProbe(route, 0.2 * stated, 3);
  EXPECT_LT(estimates.At(slow, 3).bytes_per_second, 0.3 * stated);
  for (int i = 0; i < 4; ++i) estimates.TakeProbe(route, stated, 4);
  EXPECT_GT(estimates.At(slow, 4).bytes_per_second, 0.9 * stated);
}

/// Two flows of one NIC, both held up, whose queues tell nothing of which link it is.
class CountedTest : public ::testing::Test {
 protected:
  CountedTest() : fabric_(Load("two-racks")), edges_(fabric_.Edges()), estimates_(fabric_) {
    out_ = EdgeFrom("host0", "leaf0");
    up_ = EdgeFrom("leaf0", "spine0");
  }
  int EdgeFrom(const std::string& from, const std::string& to) const {
    for (size_t e = 0; e < edges_.size(); ++e) {
      if (edges_[e].from == fabric_.FindNode(from) && edges_[e].to == fabric_.FindNode(to)) {
        return static_cast<int>(e);
      }
    }
    return -1;
  }
  double Stated(int edge) const { return edges_[static_cast<size_t>(edge)].bytes_per_second; }
  void Take(const std::vector<EdgeCount>& counts) {
    const FlowSample flow{.edges = {out_, up_},
                          .bytes_per_second = 0.3 * Stated(out_),
                          .busy = 1,
                          .queue_seconds = 5e-3};
    estimates_.Take(std::span(&flow, 1), ++now_, counts);
  }
  bool Slow(int edge) const {
    return estimates_.At(edge, now_).bytes_per_second < 0.5 * Stated(edge);
  }

  Fabric fabric_;
  std::vector<Edge> edges_;
  LinkEstimates estimates_;
  int out_ = -1;
  int up_ = -1;
  double now_ = 0;
};

TEST_F(CountedTest, WithoutCountsBothAreSuspected) {
  Take({});
  EXPECT_TRUE(Slow(out_));
  EXPECT_TRUE(Slow(up_));
}

TEST_F(CountedTest, AnEmptyQueueClearsANic) {
  Take({{out_, 0.3 * Stated(out_), 0}});
  EXPECT_FALSE(Slow(out_));
  EXPECT_TRUE(Slow(up_));
}

TEST_F(CountedTest, ANicThatOthersFillIsTheOne) {
  Take({{out_, 0.95 * Stated(out_), 2e-3}});
  EXPECT_TRUE(Slow(out_));
  EXPECT_FALSE(Slow(up_));
  EXPECT_NEAR(estimates_.At(out_, now_).bytes_per_second, 0.3 * Stated(out_), 1);
}

TEST_F(CountedTest, WhatIsCountedOfOtherEdgesChangesNothing) {
  Take({{-1, 1e9, 0}, {1 << 20, 1e9, 0}, {EdgeFrom("host1", "leaf0"), 1e9, 1}});
  EXPECT_TRUE(Slow(out_));
  EXPECT_TRUE(Slow(up_));
}

}  // namespace
}  // namespace harmonaize
