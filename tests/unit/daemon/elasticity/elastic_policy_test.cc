#include "daemon/elasticity/elastic_policy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/unit/daemon/elasticity/worlds.h"

namespace harmonaize::daemon {
namespace {

ElasticWorld World(int32_t free_places, std::vector<ElasticJob> jobs) {
  return {
      .now_seconds = kWorldNow, .hosts = {{.free_places = free_places}}, .jobs = std::move(jobs)};
}

TEST(ElasticPolicy, AGainHasToLast) {
  ElasticPolicy policy;
  ElasticWorld world = World(2, {AJob(1, {2})});
  for (int look = 1; look < ElasticPace{}.looks; ++look) {
    EXPECT_TRUE(policy.Decide(world).empty()) << look;
  }
  const std::vector<ElasticOffer> offers = policy.Decide(world);
  ASSERT_EQ(offers.size(), 1u);
  EXPECT_EQ(offers[0].job, 1u);
  EXPECT_TRUE(offers[0].grows);
  EXPECT_EQ(offers[0].ranks, 2);
  EXPECT_NEAR(offers[0].expected_step_seconds, 0.25, 1e-9);
  EXPECT_EQ(offers[0].why, "a step is expected to take 0.25 s instead of 0.5 s");
  EXPECT_GT(offers[0].confidence, 0.9);
}

TEST(ElasticPolicy, AGainThatComesAndGoesMovesNoRank) {
  ElasticPolicy policy;
  for (int look = 0; look < 20; ++look) {
    EXPECT_TRUE(policy.Decide(World(look % 2 == 0 ? 2 : 0, {AJob(1, {2})})).empty()) << look;
  }
}

TEST(ElasticPolicy, WhatWaitsIsServedAtOnce) {
  ElasticPolicy policy;
  ElasticWorld world = World(0, {AJob(1, {4})});
  world.waiting = {{.id = 9, .ranks = 2}};
  const std::vector<ElasticOffer> offers = policy.Decide(world);
  ASSERT_EQ(offers.size(), 1u);
  EXPECT_FALSE(offers[0].grows);
  EXPECT_EQ(offers[0].ranks, 2);
  EXPECT_EQ(offers[0].reason, SizeReason::kNewcomer);
}

TEST(ElasticPolicy, AJobIsLeftAloneForAWhile) {
  ElasticPolicy policy(ElasticPace{.looks = 1});
  ElasticWorld world = World(1, {AJob(1, {4})});
  ASSERT_EQ(policy.Decide(world).size(), 1u);
  EXPECT_TRUE(policy.Decide(world).empty());
  world.now_seconds += ElasticPace{}.settle_seconds + 1;
  EXPECT_EQ(policy.Decide(world).size(), 1u);
  // A change that costs much is rarer.
  world.jobs[0].change_seconds = 20;
  world.now_seconds += ElasticPace{}.settle_seconds + 1;
  ASSERT_EQ(policy.Decide(world).size(), 1u);
  world.now_seconds += ElasticPace{}.settle_seconds + 1;
  EXPECT_TRUE(policy.Decide(world).empty());
  world.now_seconds += 20 * ElasticPace{}.settle_pauses;
  EXPECT_EQ(policy.Decide(world).size(), 1u);
}

// Until the world shows what was offered the places would be asked for again.
TEST(ElasticPolicy, WhoWaitsDoesNotWaitUntilOthersHaveSettled) {
  ElasticPolicy policy;
  ElasticWorld world = World(0, {AJob(1, {4})});
  world.waiting = {{.id = 9, .ranks = 2}};
  ASSERT_EQ(policy.Decide(world).size(), 1u);
  EXPECT_TRUE(policy.Decide(world).empty());
  world.now_seconds += ElasticPace{}.shows_after_seconds - 1;
  EXPECT_TRUE(policy.Decide(world).empty());
  world.now_seconds += 2;
  EXPECT_EQ(policy.Decide(world).size(), 1u);
}

TEST(ElasticPolicy, AJobThatIsAskedOrHasDeclinedIsNotAsked) {
  ElasticPolicy policy;
  ElasticWorld world = World(0, {AJob(1, {4})});
  world.waiting = {{.id = 9, .ranks = 2}};
  world.jobs[0].is_asked = true;
  EXPECT_TRUE(policy.Decide(world).empty());
  world.jobs[0].is_asked = false;
  world.jobs[0].quiet_until_seconds = kWorldNow + 600;
  EXPECT_TRUE(policy.Decide(world).empty());
  world.now_seconds = kWorldNow + 600;
  EXPECT_EQ(policy.Decide(world).size(), 1u);
}

TEST(ElasticPolicy, JobsThatAreGoneAreForgotten) {
  ElasticPolicy policy;
  const ElasticWorld world = World(2, {AJob(1, {2})});
  for (int look = 1; look < ElasticPace{}.looks; ++look) policy.Decide(world);
  EXPECT_TRUE(policy.Decide(World(2, {})).empty());
  EXPECT_TRUE(policy.Decide(world).empty()) << "another job with the same number begins anew";
}

/// Carries all offers out at once, as the provider and obliging tenants do.
void CarryOut(const std::vector<ElasticOffer>& offers, ElasticWorld* world) {
  for (const ElasticOffer& offer : offers) {
    for (ElasticJob& job : world->jobs) {
      if (job.id != offer.job) continue;
      const int32_t ranks = offer.grows ? offer.ranks : -offer.ranks;
      job.ranks[offer.host] += ranks;
      world->hosts[offer.host].free_places -= ranks;
    }
  }
}

/// Jobs whose speeds are known exactly come to rest: none takes from another for ever.
TEST(ElasticPolicy, AWorldThatDoesNotChangeComesToRest) {
  ElasticPolicy policy;
  ElasticWorld world = World(6, {AJob(1, {8}, {.computation = 8, .bytes = 8}), AJob(2, {1}),
                                 AJob(3, {2}, {.computation = 2, .bytes = 1, .hop = 0.02})});
  size_t last_change = 0;
  for (size_t look = 0; look < 300; ++look) {
    const std::vector<ElasticOffer> offers = policy.Decide(world);
    if (!offers.empty()) last_change = look;
    CarryOut(offers, &world);
    ASSERT_GE(world.hosts[0].free_places, 0);
    world.now_seconds += 30;
  }
  EXPECT_GT(last_change, 0u);
  EXPECT_LT(last_change, 60u);
  EXPECT_GT(world.jobs[1].ranks[0], 4) << "what scales best has most of the places";
  EXPECT_LT(world.jobs[0].ranks[0], 8);
}

}  // namespace
}  // namespace harmonaize::daemon
