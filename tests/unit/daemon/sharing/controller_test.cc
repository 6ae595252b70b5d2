// What the controller tells daemons, from what they tell it.

#include "daemon/sharing/controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/topology/fabric/fabric_file.h"

namespace harmonaize::daemon {
namespace {

constexpr double kMbit = 1e6 / 8;

/// The two racks of 4 hosts: peers 1 to 4 are the daemons of hosts 0 to 3. Host 0 sends to host 2
/// for user 1001, and host 1 to host 3 for user 1002, both by explicit path 0 (500 Mbit/s).
class ControllerTest : public ::testing::Test {
 protected:
  ControllerTest() {
    Result<FabricFile> file = LoadFabricFile(std::string(FABRICS_FOLDER) + "/two-racks.toml");
    EXPECT_TRUE(file.ok()) << file.status().message();
    model_ = std::make_shared<const FabricModel>(std::move(file->fabric));
    links_ = std::make_unique<LinkState>(model_);
    controller_ = std::make_unique<Controller>(model_);
  }

  void Tell(int host, int to, uint32_t user, double mbits, double weight = 1) {
    TrafficMessage traffic{.fabric = 1, .host = host, .homes = {user}};
    if (mbits > 0) {
      traffic.flows.push_back({.peer = to,
                               .rail = kPath0,
                               .bytes_per_second = mbits * kMbit,
                               .busy = 1,
                               .jobs = {{user, user, weight, mbits * kMbit}}});
      const auto terms = terms_.find(user);
      if (terms != terms_.end()) traffic.terms.push_back(terms->second);
    }
    links_->Take(traffic, now_);
    controller_->Take(static_cast<transport::PeerId>(host) + 1, traffic, now_);
  }
  /// Terms of a user's communicator that was granted a floor, of so many Mbit/s.
  static TrafficTerms Floor(uint32_t user, double mbits, double most_of_tenant = 1000) {
    return {.user = user,
            .communicator = user,
            .owner = 7,
            .floor = mbits * kMbit,
            .tenant_floor = most_of_tenant * kMbit};
  }
  /// Passes one interval, and returns what each peer is told.
  std::map<transport::PeerId, SharesMessage> Pass(double first, double second, double weight = 1) {
    now_ += LinkState::kIntervalSeconds;
    Tell(0, 2, 1001, first);
    Tell(1, 3, 1002, second, weight);
    links_->Settle(now_);
    std::map<transport::PeerId, SharesMessage> told;
    for (auto& [peer, message] : controller_->Settle(*links_, now_)) {
      told.emplace(peer, std::move(message));
      last_[peer] = told.at(peer);
    }
    return told;
  }

  static constexpr uint64_t kPath0 = 2;  // of two NICs a host, the first by path 0
  std::shared_ptr<const FabricModel> model_;
  std::unique_ptr<LinkState> links_;
  std::unique_ptr<Controller> controller_;
  std::map<transport::PeerId, SharesMessage> last_;
  std::map<uint32_t, TrafficTerms> terms_;  // by user
  double now_ = 1000;
};

TEST_F(ControllerTest, WhoHasMoreThanItsShareIsHeldBack) {
  for (int i = 0; i < 10; ++i) Pass(400, 90);
  ASSERT_EQ(last_[1].limits.size(), 1u);
  EXPECT_EQ(last_[1].limits[0].peer, 2);
  EXPECT_EQ(last_[1].limits[0].rail, kPath0);
  EXPECT_LT(last_[1].limits[0].bytes_per_second, 400 * kMbit);
  EXPECT_GT(last_[1].limits[0].bytes_per_second, 230 * kMbit);
  EXPECT_TRUE(last_[2].limits.empty());
  const std::vector<ControlledJob> jobs = controller_->Jobs();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].held_back, 1u);
  EXPECT_EQ(jobs[1].held_back, 0u);
}

TEST_F(ControllerTest, AFloorIsPromisedAndHoldsOthersBack) {
  terms_[1001] = Floor(1001, 300);
  for (int i = 0; i < 10; ++i) Pass(180, 310);
  ASSERT_EQ(last_[1].floors.size(), 1u);
  EXPECT_EQ(last_[1].floors[0].communicator, 1001u);
  EXPECT_FALSE(last_[1].floors[0].refused);
  EXPECT_FALSE(last_[1].floors[0].missed);
  EXPECT_TRUE(last_[2].floors.empty());
  ASSERT_EQ(last_[2].limits.size(), 1u);
  EXPECT_LT(last_[2].limits[0].bytes_per_second, 205 * kMbit);
  EXPECT_GT(last_[2].limits[0].bytes_per_second, 160 * kMbit);
  const std::vector<ControlledJob> jobs = controller_->Jobs();
  EXPECT_EQ(jobs[0].terms.floor, 300 * kMbit);
  EXPECT_FALSE(jobs[0].floor_refused);
}

TEST_F(ControllerTest, FloorsThatExceedWhatCanBePromisedAreRefusedInOrder) {
  terms_[1001] = Floor(1001, 300);
  for (int i = 0; i < 10; ++i) Pass(100, 100);
  terms_[1002] = Floor(1002, 200);
  for (int i = 0; i < 10; ++i) Pass(100, 100);
  ASSERT_EQ(last_[2].floors.size(), 1u);
  EXPECT_TRUE(last_[2].floors[0].refused);
  EXPECT_NEAR(last_[2].floors[0].room, 100 * kMbit, 1);
  EXPECT_FALSE(last_[1].floors[0].refused);
  // As soon as there is room, it is promised.
  terms_.erase(1001);
  for (int i = 0; i < 20; ++i) Pass(100, 100);
  EXPECT_TRUE(last_[1].floors.empty());
  EXPECT_FALSE(last_[2].floors[0].refused);
}

TEST_F(ControllerTest, AFloorBeyondItsTenantsBoundIsRefusedForThat) {
  terms_[1001] = Floor(1001, 100, 80);
  for (int i = 0; i < 3; ++i) Pass(100, 100);
  ASSERT_EQ(last_[1].floors.size(), 1u);
  EXPECT_TRUE(last_[1].floors[0].refused);
  EXPECT_TRUE(last_[1].floors[0].tenant_bound);
  EXPECT_NEAR(last_[1].floors[0].room, 80 * kMbit, 1);
  // The override that has given the communicator its floor says another one: that makes another
  // owner.
  terms_[1001] = Floor(1001, 70, 80);
  for (int i = 0; i < 3; ++i) Pass(100, 100);
  EXPECT_FALSE(last_[1].floors[0].refused);
  terms_[1001] = Floor(1001, 75, 80);
  terms_[1001].owner = 8;
  for (int i = 0; i < 3; ++i) Pass(100, 100);
  EXPECT_FALSE(last_[1].floors[0].refused) << "what the other owner was promised is free";
}

TEST_F(ControllerTest, ACapOfATenantIsALimit) {
  terms_[1002] = {.user = 1002, .communicator = 1002, .owner = 8, .tenant_cap = 50 * kMbit};
  for (int i = 0; i < 10; ++i) Pass(100, 200);
  ASSERT_EQ(last_[2].limits.size(), 1u);
  EXPECT_NEAR(last_[2].limits[0].bytes_per_second, 50 * kMbit, 2 * kMbit);
}

TEST_F(ControllerTest, AFloorThatIsMissedIsTold) {
  terms_[1001] = Floor(1001, 300);
  // Somebody does not keep to its limit.
  for (int i = 0; i < 60; ++i) Pass(180 + i, 310 - i);
  ASSERT_EQ(last_[1].floors.size(), 1u);
  EXPECT_TRUE(last_[1].floors[0].missed);
  EXPECT_LT(last_[1].floors[0].had, 285 * kMbit);
  for (int i = 0; i < 40; ++i) Pass(305, 150);
  EXPECT_FALSE(last_[1].floors[0].missed);
}

TEST_F(ControllerTest, JobsOfOneOwnerHaveOneLimit) {
  terms_[1002] = {1002, 1002, 8, 0, 0, 50 * kMbit};
  for (int i = 0; i < 10; ++i) Pass(100, 200);
  ASSERT_EQ(last_[2].limits.size(), 1u);
  EXPECT_EQ(last_[2].limits[0].owner, 8u);
  EXPECT_NEAR(last_[2].limits[0].bytes_per_second, 50 * kMbit, 2 * kMbit);
  EXPECT_TRUE(last_[1].limits.empty());
}

TEST_F(ControllerTest, PlansAreToldWhatLinksHaveLeftOneAfterTheOther) {
  // Nothing is told until it has been seen what both send.
  for (int i = 0; i < 8; ++i) Pass(100, 300);
  EXPECT_TRUE(last_[1].jobs.empty());
  EXPECT_TRUE(last_[2].jobs.empty());
  for (int i = 0; i < 8; ++i) Pass(100, 300);
  EXPECT_NE(last_[1].jobs.empty(), last_[2].jobs.empty());
  for (int i = 0; i < 20; ++i) Pass(100, 300);
  const auto of = [this](transport::PeerId peer, const std::string& link) {
    const int edge = 2 * model_->fabric().FindLink(link);
    for (const JobRates& job : last_[peer].jobs) {
      for (const EdgeRate& rate : job.rates) {
        if (rate.edge == edge || rate.edge == edge + 1) return rate.bytes_per_second / kMbit;
      }
    }
    return 0.0;
  };
  EXPECT_LT(of(1, "leaf0-spine0"), 300);
  EXPECT_GT(of(1, "leaf0-spine0"), 200);
  EXPECT_GT(of(2, "leaf0-spine0"), 300);
  EXPECT_EQ(of(1, "leaf0-spine1"), 0);
}

TEST_F(ControllerTest, WhatHasNotChangedIsRepeatedNowAndThen) {
  for (int i = 0; i < 30; ++i) Pass(400, 90);
  int told = 0;
  for (int i = 0; i < 20; ++i) told += static_cast<int>(Pass(100, 100).contains(2));
  EXPECT_GE(told, 4);
  EXPECT_LE(told, 12);
}

TEST_F(ControllerTest, HostsThatAreGoneHoldNobodyBack) {
  for (int i = 0; i < 10; ++i) Pass(400, 90);
  ASSERT_FALSE(last_[1].limits.empty());
  controller_->Forget(2, now_);
  for (int i = 0; i < 20; ++i) {
    now_ += LinkState::kIntervalSeconds;
    Tell(0, 2, 1001, 400);
    for (auto& [peer, message] : controller_->Settle(*links_, now_)) last_[peer] = message;
  }
  EXPECT_TRUE(last_[1].limits.empty());
  EXPECT_EQ(controller_->hosts(), 1u);
  EXPECT_EQ(controller_->PeerAt(0), transport::PeerId{1});
  EXPECT_FALSE(controller_->PeerAt(1).has_value());
}

TEST_F(ControllerTest, ForeignHostsAndRailsAreLeftOut) {
  TrafficMessage traffic{.fabric = 1, .host = 99};
  controller_->Take(9, traffic, now_);
  EXPECT_EQ(controller_->hosts(), 0u);
  traffic.host = 0;
  const std::vector<TrafficJob> jobs = {{1001, 7, 1, 1e6}};
  traffic.flows = {{.peer = 99, .rail = 2, .jobs = jobs},
                   {.peer = 0, .rail = 2, .jobs = jobs},
                   {.peer = 1, .rail = 1u << 30, .jobs = jobs}};
  controller_->Take(9, traffic, now_);
  EXPECT_TRUE(controller_->Jobs().empty());
  EXPECT_TRUE(controller_->Settle(*links_, now_).front().second.limits.empty());
}

}  // namespace
}  // namespace harmonaize::daemon
