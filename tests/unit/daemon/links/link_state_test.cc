// Conclusions about links, from what daemons tell of their rails.

#include "daemon/links/link_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/topology/fabric/fabric_file.h"
#include "tests/support/sanitized.h"

namespace harmonaize::daemon {
namespace {

constexpr double kMbit = 1e6 / 8;

/// Two racks; each host has one flow for each rail to the host across, as fast as its path carries.
class LinkStateTest : public ::testing::Test {
 protected:
  LinkStateTest() {
    Result<FabricFile> file = LoadFabricFile(std::string(FABRICS_FOLDER) + "/two-racks.toml");
    EXPECT_TRUE(file.ok()) << file.status().message();
    model_ = std::make_shared<const FabricModel>(std::move(file->fabric));
    state_ = std::make_unique<LinkState>(model_);
    slow_ = 2 * model_->fabric().FindLink("leaf0-spine0");
    Edge ends = model_->fabric().EdgeAt(slow_);
    EXPECT_EQ(model_->fabric().nodes[static_cast<size_t>(ends.from)].name, "leaf0");
  }

  /// What path 0 carries from rack 0 to rack 1, by all of its flows, in bytes per second.
  double carried_ = 400 * kMbit;
  double queue_ = 0;
  double busy_ = 0.5;
  bool stalled_ = false;  ///< Nothing goes over path 0, ...
  bool astray_ = false;   ///< ... and its rails go another way.

  /// Passes one interval in which all hosts report. Returns whether the rates in force have changed
  /// in it.
  bool Pass(double noise = 0) {
    now_ += LinkState::kIntervalSeconds;
    std::normal_distribution<double> factor(1, noise);
    bool changed = false;
    for (int host = 0; host < 4; ++host) {
      TrafficMessage message{.fabric = 1, .host = host};
      const int across = (host + 2) % 4;
      for (uint64_t rail = 2; rail < 6; ++rail) {
        const bool on_path0 = rail < 4;
        const bool forth = host < 2;
        TrafficFlow flow{.peer = across, .rail = rail};
        flow.astray = on_path0 && astray_;
        if (on_path0 && stalled_) {
          flow.busy = 1;
          message.flows.push_back(flow);
          continue;
        }
        flow.bytes_per_second = on_path0 && forth ? carried_ / 4 : 100 * kMbit;
        flow.busy = on_path0 && forth ? busy_ : 0.5;
        // Traffic that comes to rack 1 by path 0 is what rack 0 sends.
        flow.arrival_queue = on_path0 && !forth ? queue_ : 20e-6;
        if (noise > 0) flow.bytes_per_second *= std::max(0.1, factor(random_));
        if (noise > 0) flow.arrival_queue *= std::max(0.1, factor(random_));
        message.flows.push_back(flow);
      }
      state_->Take(message, now_);
      changed |= state_->Settle(now_);
    }
    return changed;
  }
  void HoldUp(double mbit) {
    carried_ = mbit * kMbit;
    queue_ = 4e-3;
    busy_ = 1;
  }
  void LetGo(double mbit) {
    carried_ = mbit * kMbit;
    queue_ = 20e-6;
    busy_ = 0.4;
  }
  /// Returns the rate in force of the slow edge, in Mbit/s.
  double InForce() const {
    for (const EdgeRate& one : state_->rates()) {
      if (one.edge == slow_) return one.bytes_per_second / kMbit;
    }
    return 500;
  }

  std::shared_ptr<const FabricModel> model_;
  std::unique_ptr<LinkState> state_;
  int slow_ = 0;
  double now_ = 100;
  std::mt19937 random_{1};
};

TEST_F(LinkStateTest, AllIsAsStatedAtFirst) {
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(Pass());
  EXPECT_TRUE(state_->rates().empty());
  EXPECT_FALSE(state_->NextProbe(now_).has_value());
  EXPECT_NE(DescribeRates(*model_, state_->rates()).find("all links"), std::string::npos);
}

TEST_F(LinkStateTest, TellsWhatAnEdgeCarriesUntilTheReportsAreOld) {
  const auto carried = [this] {
    for (const EdgeState& one : state_->Edges(now_)) {
      if (one.edge == slow_) return one.carried / kMbit;
    }
    return 0.0;
  };
  EXPECT_EQ(carried(), 0) << "nobody has told of anything";
  Pass();
  EXPECT_NEAR(carried(), 400, 1e-6) << "the flows of two hosts over two rails";
  LetGo(120);
  Pass();
  EXPECT_NEAR(carried(), 120, 1e-6);
  now_ += 10;
  EXPECT_EQ(carried(), 0) << "nobody has told of anything for long";
}

TEST_F(LinkStateTest, ALinkThatHoldsFlowsUpIsFoundWithinAFewIntervals) {
  for (int i = 0; i < 5; ++i) Pass();
  HoldUp(100);
  int intervals = 0;
  while (std::abs(InForce() - 100) > 5 && intervals < 20) {
    Pass();
    ++intervals;
  }
  EXPECT_LE(intervals, 4);
  // Slow are the two edges in a row by which path 0 goes, in this direction; no others.
  EXPECT_EQ(state_->rates().size(), 2u);
  EXPECT_FALSE(AnyIsCut(*model_, state_->rates())) << "it is slow";
  EXPECT_NE(DescribeRates(*model_, state_->rates()).find("leaf0 to spine0 carries"),
            std::string::npos);
}

TEST_F(LinkStateTest, ACutLinkIsOneOfThoseOverWhichNothingElseGoes) {
  for (int i = 0; i < 5; ++i) Pass();
  // The transport needs half a second to be sure.
  stalled_ = true;
  for (int i = 0; i < 6; ++i) Pass();
  astray_ = true;
  EXPECT_TRUE(Pass());
  Pass();  // by now all hosts have told
  // Both links of path 0 count as cut, in both directions, since nothing tells them apart. The
  // hosts' own links do not, over which path 1 goes as well.
  EXPECT_EQ(state_->rates().size(), 4u);
  EXPECT_LT(InForce(), 1);
  EXPECT_TRUE(AnyIsCut(*model_, state_->rates()));
  EXPECT_NE(DescribeRates(*model_, state_->rates()).find("leaf0 to spine0 carries nothing"),
            std::string::npos);
  // It is not probed as long as nothing gets there.
  for (int i = 0; i < 50; ++i) {
    EXPECT_FALSE(Pass());
    EXPECT_FALSE(state_->NextProbe(now_).has_value());
  }
  // When the rails are back it is as good as before, at once.
  stalled_ = astray_ = false;
  bool changed = false;
  for (int i = 0; i < 3; ++i) changed |= Pass();
  EXPECT_TRUE(changed);
  EXPECT_TRUE(state_->rates().empty());
}

TEST_F(LinkStateTest, WhatNobodyTellsOfIsNotCutAnyMore) {
  stalled_ = astray_ = true;
  Pass();
  EXPECT_FALSE(state_->rates().empty());
  now_ += 1;
  EXPECT_TRUE(state_->Settle(now_));
  EXPECT_TRUE(state_->rates().empty());
}

TEST_F(LinkStateTest, OneBadIntervalIsNoChange) {
  for (int i = 0; i < 5; ++i) Pass();
  HoldUp(100);
  EXPECT_FALSE(Pass());
  LetGo(400);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Pass());
  EXPECT_TRUE(state_->rates().empty());
}

TEST_F(LinkStateTest, ThatIsSlowButNotFullIsProbedAndRecovers) {
  HoldUp(100);
  for (int i = 0; i < 10; ++i) Pass();
  // While flows are held up by it no probe is needed.
  EXPECT_FALSE(state_->NextProbe(now_).has_value());
  LetGo(80);
  std::optional<FabricRail> probe;
  for (int i = 0; i < 20 && !probe.has_value(); ++i) {
    Pass();
    probe = state_->NextProbe(now_);
  }
  ASSERT_TRUE(probe.has_value());
  // The probe leads over the edge.
  EXPECT_LT(probe->from, 2);
  EXPECT_GE(probe->to, 2);
  EXPECT_TRUE(probe->rail == 2 || probe->rail == 3);
  EXPECT_FALSE(state_->TakeProbe(*probe, 95 * kMbit, now_));
  EXPECT_NEAR(InForce(), 100, 6);
  EXPECT_TRUE(state_->TakeProbe(*probe, 480 * kMbit, now_));
  EXPECT_TRUE(state_->rates().empty());
}

// A link whose probes get more than flows then do, again and again, is probed ever more rarely.
TEST_F(LinkStateTest, ThatBreaksItsPromisesIsProbedMoreRarely) {
  HoldUp(100);
  for (int i = 0; i < 10; ++i) Pass();
  std::vector<double> raised;
  for (int i = 0; i < 1200; ++i) {  // two minutes
    InForce() < 200 ? LetGo(80) : HoldUp(100);
    Pass();
    if (const auto probe = state_->NextProbe(now_)) {
      if (state_->TakeProbe(*probe, 450 * kMbit, now_)) raised.push_back(now_);
    }
  }
  EXPECT_GE(raised.size(), 4u);
  EXPECT_LE(raised.size(), 12u);
}

// An hour of flows that waver by a fifth, over links that are full and links that are not.
TEST_F(LinkStateTest, NoiseIsNoChange) {
  HoldUp(300);
  for (int i = 0; i < 20; ++i) Pass(0.05);
  const double before = InForce();
  EXPECT_NEAR(before, 300, 30);
  int changes = 0;
  constexpr int kIntervals = kSanitized ? 2'000 : 36'000;
  for (int i = 0; i < kIntervals; ++i) changes += Pass(0.05) ? 1 : 0;
  EXPECT_NEAR(InForce(), 300, 40);
  // A change only deals messages anew by a few per cent.
  EXPECT_LE(changes, kIntervals / 100);
}

TEST_F(LinkStateTest, ForeignHostsAndRailsAreLeftOut) {
  TrafficMessage message{.fabric = 1, .host = 99};
  message.flows.push_back({.peer = 0, .rail = 2, .bytes_per_second = 1, .busy = 1});
  state_->Take(message, now_);
  message.host = 0;
  message.flows = {{.peer = 99, .rail = 2}, {.peer = 0, .rail = 2}, {.peer = 1, .rail = 1u << 30}};
  state_->Take(message, now_);
  EXPECT_FALSE(state_->Settle(now_));
  EXPECT_FALSE(state_->TakeProbe({0, 99, 0}, 1e6, now_));
}

}  // namespace
}  // namespace harmonaize::daemon
