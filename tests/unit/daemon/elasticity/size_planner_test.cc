#include "daemon/elasticity/size_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/unit/daemon/elasticity/worlds.h"

namespace harmonaize::daemon {
namespace {

std::vector<SizeChange> Plan(const ElasticWorld& world) {
  return SizePlanner(world, std::vector<bool>(world.jobs.size(), false)).Plan();
}

/// Returns how many ranks a job has more, or fewer, by the changes that are possible at once.
int32_t ChangeOf(const std::vector<SizeChange>& changes, size_t job) {
  int32_t sum = 0;
  for (const SizeChange& change : changes) {
    if (change.job == job && change.is_possible) sum += change.ranks;
  }
  return sum;
}

ElasticWorld OneHost(int32_t free_places, std::vector<ElasticJob> jobs) {
  return {
      .now_seconds = kWorldNow, .hosts = {{.free_places = free_places}}, .jobs = std::move(jobs)};
}

TEST(SizePlanner, FreePlacesGoWhereTheyShortenMost) {
  const ElasticWorld world = OneHost(
      4, {AJob(1, {2}, {.computation = 4}), AJob(2, {2}, {.computation = 4, .bytes = 1.5})});
  const std::vector<SizeChange> changes = Plan(world);
  EXPECT_EQ(ChangeOf(changes, 0), 4) << "the other one waits for its exchanges";
  EXPECT_EQ(ChangeOf(changes, 1), 0);
}

TEST(SizePlanner, AlikeJobsShareAlike) {
  const std::vector<SizeChange> changes = Plan(OneHost(4, {AJob(1, {2}), AJob(2, {2})}));
  EXPECT_EQ(ChangeOf(changes, 0), 2);
  EXPECT_EQ(ChangeOf(changes, 1), 2);
}

/// Of all ways to give places away, the one that is taken has the largest sum of logarithms.
TEST(SizePlanner, NoOtherShareOfFreePlacesIsBetter) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> part(0, 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<ElasticJob> jobs;
    for (uint64_t id = 0; id < 3; ++id) {
      jobs.push_back(AJob(
          id, {1 + static_cast<int32_t>(3 * part(random))},
          {.computation = 1 + part(random), .bytes = part(random), .hop = 0.02 * part(random)}));
      jobs.back().change_seconds = 0;
    }
    const ElasticWorld world = OneHost(6, jobs);
    const auto value = [&](const std::vector<int32_t>& more) {
      double sum = 0;
      for (size_t i = 0; i < 3; ++i) sum += std::log(jobs[i].speed.Speed(jobs[i].size() + more[i]));
      return sum;
    };
    double best = value({0, 0, 0});
    for (int32_t a = 0; a <= 6; ++a) {
      for (int32_t b = 0; a + b <= 6; ++b) {
        for (int32_t c = 0; a + b + c <= 6; ++c) best = std::max(best, value({a, b, c}));
      }
    }
    const std::vector<SizeChange> changes = Plan(world);
    std::vector<int32_t> more;
    for (size_t i = 0; i < 3; ++i) more.push_back(std::max(0, ChangeOf(changes, i)));
    // Growth of less than three percent is left out.
    EXPECT_GT(value(more), best - 3 * 0.03) << round;
    EXPECT_LE(value(more), best + 1e-9) << round;
  }
}

TEST(SizePlanner, AHigherPriorityIsServedFirst) {
  ElasticWorld world = OneHost(2, {AJob(1, {2}), AJob(2, {4})});
  world.jobs[1].priority = 1;
  const std::vector<SizeChange> changes = Plan(world);
  EXPECT_EQ(ChangeOf(changes, 1), 2);
}

TEST(SizePlanner, JobsGrowOnTheirOwnHosts) {
  ElasticWorld world = {.now_seconds = kWorldNow,
                        .hosts = {{.free_places = 8}, {.free_places = 1}, {.free_places = 8}},
                        .jobs = {AJob(1, {0, 2, 0}, {.computation = 4, .bytes = 0.1})}};
  world.hosts[0].link_load = 0.5;
  world.jobs[0].bounds.most = 4;
  const std::vector<SizeChange> changes = Plan(world);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].host, 1u);
  EXPECT_EQ(changes[0].ranks, 1);
  EXPECT_EQ(changes[1].host, 2u) << "whose links are used least";
}

TEST(SizePlanner, JobsGrowWhereSomebodyStartsTheirRanks) {
  ElasticWorld world = {.now_seconds = kWorldNow,
                        .hosts = {{.free_places = 4}, {.free_places = 4}},
                        .jobs = {AJob(1, {2, 0}, {.computation = 8})}};
  world.jobs[0].room = {0, 3};
  const std::vector<SizeChange> changes = Plan(world);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].host, 1u);
  EXPECT_EQ(changes[0].ranks, 3);
}

TEST(SizePlanner, AFullLinkIsNoPlaceToGrow) {
  ElasticWorld world = {.now_seconds = kWorldNow,
                        .hosts = {{}, {.free_places = 2}},
                        .jobs = {AJob(1, {4, 0}, {.computation = 4, .bytes = 1})}};
  EXPECT_EQ(ChangeOf(Plan(world), 0), 2);
  world.hosts[1].link_load = 0.9;
  EXPECT_EQ(ChangeOf(Plan(world), 0), 0) << "its exchange would take ten times as long";
}

TEST(SizePlanner, ANewcomerGetsPlacesOfTheLeastHarmed) {
  ElasticWorld world = OneHost(
      1, {AJob(1, {4}, {.computation = 4}), AJob(2, {4}, {.computation = 4, .bytes = 1.5})});
  for (ElasticJob& job : world.jobs) job.bounds.most = 4;
  world.waiting = {{.id = 9, .ranks = 3}};
  std::vector<SizeChange> changes = Plan(world);
  EXPECT_EQ(ChangeOf(changes, 0), 0);
  EXPECT_EQ(ChangeOf(changes, 1), -2) << "one place is free";
  for (const SizeChange& change : changes) {
    if (change.job != 1) continue;
    EXPECT_EQ(change.reason, SizeReason::kNewcomer);
  }
  world.hosts[0].coming_places = 2;
  changes = Plan(world);
  EXPECT_TRUE(changes.empty()) << "as many places become free, and the free one is the newcomer's";
}

TEST(SizePlanner, NothingIsTakenForANewcomerThatCannotBegin) {
  ElasticWorld world = OneHost(0, {AJob(1, {4}), AJob(2, {4})});
  world.waiting = {{.id = 9, .ranks = 7}};
  EXPECT_TRUE(Plan(world).empty());
  world.waiting.push_back({.id = 10, .ranks = 6});
  const std::vector<SizeChange> changes = Plan(world);
  EXPECT_EQ(ChangeOf(changes, 0) + ChangeOf(changes, 1), -6) << "the next one can";
}

TEST(SizePlanner, NothingIsTakenFromAHigherPriority) {
  ElasticWorld world = OneHost(0, {AJob(1, {4}), AJob(2, {4})});
  world.jobs[0].priority = 2;
  world.waiting = {{.id = 9, .ranks = 3, .priority = 1}};
  std::vector<SizeChange> changes = Plan(world);
  EXPECT_EQ(ChangeOf(changes, 0), 0);
  EXPECT_EQ(ChangeOf(changes, 1), -3);
  world.waiting[0].ranks = 4;
  EXPECT_TRUE(Plan(world).empty());
}

TEST(SizePlanner, AJobThatWouldBeLateGetsWhatItNeeds) {
  ElasticWorld world = OneHost(0, {AJob(1, {2}), AJob(2, {6})});
  ElasticJob& late = world.jobs[0];
  late.goal = ElasticGoal::kDeadline;
  late.samples_left = 1000;
  late.deadline_seconds = kWorldNow + 1000 / 4.0 / 0.95 + 1;  // Four ranks are needed.
  std::vector<SizeChange> changes = Plan(world);
  EXPECT_EQ(ChangeOf(changes, 1), -2);
  world.hosts[0].free_places = 1;
  changes = Plan(world);
  EXPECT_EQ(ChangeOf(changes, 0), 1);
  EXPECT_EQ(ChangeOf(changes, 1), -1);
  world.jobs[1].priority = 1;
  EXPECT_EQ(ChangeOf(Plan(world), 1), 1) << "it is not to give, and the place alone does not help";
}

TEST(SizePlanner, AJobThatIsInTimeIsLeftAsItIs) {
  ElasticWorld world = OneHost(4, {AJob(1, {2})});
  world.jobs[0].goal = ElasticGoal::kDeadline;
  world.jobs[0].samples_left = 1000;
  world.jobs[0].deadline_seconds = kWorldNow + 10000;
  EXPECT_TRUE(Plan(world).empty());
}

TEST(SizePlanner, ADeadlineThatIsMetIsNotBrokenForOthers) {
  ElasticWorld world = OneHost(0, {AJob(1, {4}, {.computation = 4, .bytes = 1.5}), AJob(2, {4})});
  world.jobs[0].samples_left = 1000;
  world.jobs[0].deadline_seconds = kWorldNow + 1000 * world.jobs[0].speed.StepSeconds(4) / 0.95 + 1;
  for (ElasticJob& job : world.jobs) job.bounds.most = 4;
  world.waiting = {{.id = 9, .ranks = 2}};
  const std::vector<SizeChange> changes = Plan(world);
  EXPECT_EQ(ChangeOf(changes, 0), 0) << "although it would be harmed least";
  EXPECT_EQ(ChangeOf(changes, 1), -2);
}

TEST(SizePlanner, PlacesGoOverToAJobThatGainsMuchMore) {
  ElasticWorld world = OneHost(0, {AJob(1, {8}, {.computation = 8, .bytes = 8}), AJob(2, {1})});
  const std::vector<SizeChange> changes = Plan(world);
  EXPECT_LT(ChangeOf(changes, 0), 0);
  bool grows = false;
  for (const SizeChange& change : changes) {
    grows |= change.job == 1 && change.ranks > 0 && !change.is_possible;
    if (change.job != 0) continue;
    EXPECT_EQ(change.taker, 1u);
  }
  EXPECT_TRUE(grows) << "as soon as the places are free";
  world.jobs[0].priority = 1;
  EXPECT_TRUE(Plan(world).empty());
  world.jobs[0].priority = 0;
  world.jobs[1].samples_left = 2;
  EXPECT_TRUE(Plan(world).empty()) << "it is soon done";
}

// One place more would not be worth the pause.
TEST(SizePlanner, TradesAreWeighedByAllThePlacesThatTheyBring) {
  ElasticWorld world = OneHost(
      0, {AJob(1, {8}, {.computation = 8, .bytes = 80}), AJob(2, {40}, {.computation = 40})});
  world.jobs[1].speed = ModelOf({.computation = 40}, {10, 20, 40});
  world.jobs[1].change_seconds = 20;
  EXPECT_LT(ChangeOf(Plan(world), 0), -2);
}

TEST(SizePlanner, NothingIsTakenForAJobThatCouldNotUseIt) {
  ElasticWorld world = {.now_seconds = kWorldNow,
                        .hosts = {{}, {}},
                        .jobs = {AJob(1, {8, 0}, {.computation = 8, .bytes = 8}), AJob(2, {0, 1})}};
  EXPECT_LT(ChangeOf(Plan(world), 0), 0);
  world.jobs[1].room = {0, 8};
  EXPECT_EQ(ChangeOf(Plan(world), 0), 0) << "nobody starts its ranks there";
  world.jobs[1].room = {2, 0};
  EXPECT_EQ(ChangeOf(Plan(world), 0), -2);
  world.jobs[1].bounds.step = 2;
  EXPECT_EQ(ChangeOf(Plan(world), 0), 0) << "one place alone is of no use to it";
}

TEST(SizePlanner, PlacesThatBecomeFreeAreNotTakenFromOthers) {
  ElasticWorld world = OneHost(0, {AJob(1, {8}, {.computation = 8, .bytes = 8}), AJob(2, {1})});
  world.jobs[1].bounds.most = 4;
  EXPECT_EQ(ChangeOf(Plan(world), 0), -3);
  world.hosts[0].coming_places = 2;
  EXPECT_EQ(ChangeOf(Plan(world), 0), -1);
  world.hosts[0].coming_places = 3;
  EXPECT_EQ(ChangeOf(Plan(world), 0), 0);
}

TEST(SizePlanner, AJobThatIsToBeCheapShrinks) {
  ElasticWorld world = OneHost(8, {AJob(1, {4}, {.computation = 1, .bytes = 1})});
  EXPECT_GE(ChangeOf(Plan(world), 0), 0);
  world.jobs[0].goal = ElasticGoal::kCheapest;
  EXPECT_EQ(ChangeOf(Plan(world), 0), -3) << "two ranks cost twice as much as one";
  world.jobs[0].bounds.least = 2;
  EXPECT_EQ(ChangeOf(Plan(world), 0), -2);
  world.jobs[0].speed = ModelOf({.computation = 1}, {1, 2, 4});
  EXPECT_GT(ChangeOf(Plan(world), 0), 0) << "what scales perfectly costs the same";

  world = OneHost(0, {AJob(1, {4}, {.computation = 1, .bytes = 0.067})});
  world.jobs[0].goal = ElasticGoal::kCheapest;
  EXPECT_EQ(ChangeOf(Plan(world), 0), 0) << "it costs 1.2 times the least";
  world.jobs[0].speed = ModelOf({.computation = 1, .bytes = 0.095}, {1, 2, 4});
  EXPECT_EQ(ChangeOf(Plan(world), 0), -2) << "it costs 1.29 times the least, and two ranks 1.1";
}

TEST(SizePlanner, WhatIsLeftAloneStays) {
  ElasticWorld world = OneHost(4, {AJob(1, {2}), AJob(2, {2})});
  world.waiting = {{.id = 9, .ranks = 6}};
  const std::vector<SizeChange> changes = SizePlanner(world, {true, false}).Plan();
  EXPECT_EQ(ChangeOf(changes, 0), 0);
}

ElasticWorld RandomWorld(std::mt19937* random) {
  const auto draw = [&](int32_t least, int32_t most) {
    return std::uniform_int_distribution<int32_t>(least, most)(*random);
  };
  std::uniform_real_distribution<double> part(0, 1);
  ElasticWorld world = {.now_seconds = kWorldNow};
  const auto hosts = static_cast<size_t>(draw(1, 6));
  for (size_t host = 0; host < hosts; ++host) {
    world.hosts.push_back({.free_places = draw(0, 4),
                           .coming_places = draw(0, 5) == 0 ? draw(1, 3) : 0,
                           .link_load = part(*random)});
  }
  const int32_t jobs = draw(0, 8);
  for (int32_t i = 0; i < jobs; ++i) {
    ElasticJob job = AJob(static_cast<uint64_t>(i), std::vector<int32_t>(hosts),
                          {.computation = 0.1 + 3 * part(*random),
                           .fixed = 0.1 * part(*random),
                           .bytes = 2 * part(*random),
                           .hop = 0.05 * part(*random)});
    job.bounds.step = draw(1, 3);
    job.bounds.least = draw(1, 4);
    const int32_t size = job.bounds.least + job.bounds.step * draw(0, 4);
    job.bounds.most = size + draw(0, 10);
    for (int32_t rank = 0; rank < size; ++rank) {
      ++job.ranks[static_cast<size_t>(draw(0, static_cast<int32_t>(hosts) - 1))];
    }
    if (draw(0, 1) == 0) {
      for (size_t host = 0; host < hosts; ++host) job.room.push_back(draw(0, 2));
    }
    job.tenant = static_cast<uint32_t>(draw(0, 2));
    job.priority = draw(0, 3);
    job.goal = static_cast<ElasticGoal>(draw(0, 2));
    job.samples_left = draw(0, 3) == 0 ? 0 : 1000 * part(*random);
    if (draw(0, 1) == 0) job.deadline_seconds = kWorldNow + 1000 * part(*random);
    job.change_seconds = 20 * part(*random);
    world.jobs.push_back(job);
  }
  for (uint32_t tenant = 0; tenant < 3; ++tenant) {
    if (draw(0, 3) > 0) world.shares[tenant] = draw(0, 12);
  }
  const int32_t waiting = draw(0, 3);
  for (int32_t i = 0; i < waiting; ++i) {
    world.waiting.push_back(
        {.id = 100 + static_cast<uint64_t>(i), .ranks = draw(1, 8), .priority = draw(0, 3)});
  }
  return world;
}

bool MeetsDeadline(const ElasticWorld& world, const ElasticJob& job, double speed) {
  return job.samples_left / speed <= (job.deadline_seconds - world.now_seconds) * 0.95 + 1e-9;
}

/// Returns whether all that a tenant's jobs leave goes to jobs of others, and something does.
bool IsTakenForOthersAlone(const ElasticWorld& world, const std::vector<SizeChange>& changes,
                           uint32_t tenant) {
  bool is_taken = false;
  for (const SizeChange& change : changes) {
    if (world.jobs[change.job].tenant != tenant) continue;
    // Its own jobs may be takers, too: a change of several steps names one of them alone.
    if (change.ranks > 0 && !change.is_possible) return false;
    if (change.ranks > 0) continue;
    // One that is to be cheap may leave more by itself.
    if (world.jobs[change.job].goal == ElasticGoal::kCheapest) return false;
    if (!change.taker.has_value() || world.jobs[*change.taker].tenant == tenant) return false;
    is_taken = true;
  }
  return is_taken;
}

// A job with a long pause gains most, and would not grow all the same.
TEST(SizePlanner, PlacesAreNotLostToAJobWhoseChangeWouldNotPay) {
  ElasticWorld world = OneHost(
      2, {AJob(1, {1}, {.computation = 4}), AJob(2, {4}, {.computation = 4, .bytes = 0.2})});
  world.jobs[0].change_seconds = 1000;
  EXPECT_EQ(ChangeOf(Plan(world), 0), 0);
  EXPECT_EQ(ChangeOf(Plan(world), 1), 2);
  // This one could pay, with more places than there are.
  world.jobs[0].change_seconds = 595;
  EXPECT_EQ(ChangeOf(Plan(world), 0), 0);
  EXPECT_EQ(ChangeOf(Plan(world), 1), 2);
}

// Each of them would pay with all places, and with its part of them none does.
TEST(SizePlanner, ManyJobsWhoseChangesDoNotPayCostOthersNoPlaces) {
  std::vector<ElasticJob> jobs;
  for (uint64_t id = 0; id < 40; ++id) {
    jobs.push_back(AJob(id, {1}, {.computation = 4}));
    jobs.back().tenant = 1;
    jobs.back().change_seconds = 430;
  }
  jobs.push_back(AJob(99, {4}, {.computation = 4, .bytes = 0.2}));
  jobs.back().tenant = 2;
  // Of the same tenant is a job that has all it wants, which no change could make faster.
  jobs.push_back(AJob(100, {4}, {.computation = 4}));
  jobs.back().tenant = 2;
  jobs.back().bounds.most = 4;
  const ElasticWorld world = OneHost(3, std::move(jobs));
  EXPECT_EQ(ChangeOf(Plan(world), 40), 3);
}

TEST(SizePlanner, ATenantGrowsUpToItsShare) {
  ElasticWorld world = OneHost(8, {AJob(1, {2}), AJob(2, {2})});
  world.jobs[0].tenant = 1;
  world.jobs[1].tenant = 2;
  world.shares = {{1, 3}, {2, 6}};
  const std::vector<SizeChange> changes = Plan(world);
  EXPECT_EQ(ChangeOf(changes, 0), 1);
  EXPECT_EQ(ChangeOf(changes, 1), 4);
}

// A tenant may tell of steps that it does not do, so that its jobs seem to gain much.
TEST(SizePlanner, WhatIsATenantsShareIsNotTakenForOthers) {
  ElasticWorld world = OneHost(0, {AJob(1, {8}, {.computation = 8, .bytes = 8}), AJob(2, {1})});
  world.jobs[0].tenant = 1;
  world.jobs[1].tenant = 2;
  EXPECT_EQ(ChangeOf(Plan(world), 0), 0) << "nobody has more than its share without shares";
  world.shares = {{1, 8}, {2, 9}};
  EXPECT_EQ(ChangeOf(Plan(world), 0), 0);
  world.shares[1] = 7;
  EXPECT_EQ(ChangeOf(Plan(world), 0), -1);
  world.jobs[1].deadline_seconds = kWorldNow + 1;
  world.jobs[1].samples_left = 3;
  world.shares[1] = 8;
  EXPECT_EQ(ChangeOf(Plan(world), 0), 0) << "nor for the deadlines of others";
  world.shares[1] = 1;
  EXPECT_LT(ChangeOf(Plan(world), 0), -1);
}

TEST(SizePlanner, RandomWorldsKeepTheRules) {
  std::mt19937 random(20261128);
  size_t reclaims = 0;
  size_t trades = 0;
  size_t deadlines = 0;
  size_t trades_between_tenants = 0;
  size_t at_share = 0;
  size_t taken_for_others = 0;
  for (int round = 0; round < 20000; ++round) {
    const ElasticWorld world = RandomWorld(&random);
    std::vector<bool> left_alone;
    for (size_t i = 0; i < world.jobs.size(); ++i) left_alone.push_back(random() % 5 == 0);
    const std::vector<SizeChange> changes = SizePlanner(world, left_alone).Plan();
    int most_waiting = -1;
    for (const WaitingJob& waiting : world.waiting) {
      most_waiting = std::max(most_waiting, waiting.priority);
    }
    Placement after(world);
    std::vector<int32_t> used(world.hosts.size());
    for (const SizeChange& change : changes) {
      const ElasticJob& job = world.jobs[change.job];
      ASSERT_FALSE(left_alone[change.job]) << round;
      ASSERT_NE(change.ranks, 0) << round;
      ASSERT_EQ(change.ranks % job.bounds.step, 0) << round;
      if (change.reason == SizeReason::kNewcomer) {
        ASSERT_LE(job.priority, most_waiting) << round;
        ++reclaims;
      }
      if (change.reason == SizeReason::kTrade) {
        const ElasticJob& taker = world.jobs[*change.taker];
        ASSERT_LE(job.priority, taker.priority) << round;
        ++trades;
        trades_between_tenants += taker.tenant != job.tenant;
        ASSERT_TRUE(taker.tenant == job.tenant || world.shares.contains(job.tenant)) << round;
      }
      if (!change.is_possible) continue;
      if (change.ranks > 0) {
        if (!job.room.empty()) {
          ASSERT_LE(change.ranks, job.room[change.host]) << round;
        }
        used[change.host] += change.ranks;
        after.Grow(change.job, change.host, change.ranks);
      } else {
        ASSERT_LE(-change.ranks, job.ranks[change.host]) << round;
        after.Shrink(change.job, change.host, -change.ranks);
      }
    }
    for (size_t host = 0; host < used.size(); ++host) {
      ASSERT_LE(used[host], world.hosts[host].free_places) << round;
    }
    const Placement before(world);
    for (size_t i = 0; i < world.jobs.size(); ++i) {
      const ElasticJob& job = world.jobs[i];
      const auto share = world.shares.find(job.tenant);
      if (share != world.shares.end()) {
        const int32_t held = after.HeldByTenantOf(i);
        ASSERT_LE(held, std::max(share->second, before.HeldByTenantOf(i))) << round;
        at_share += held == share->second;
        // Jobs that wait take from everybody, and a tenant's own jobs take from each other.
        if (IsTakenForOthersAlone(world, changes, job.tenant)) {
          ASSERT_GE(held, std::min(share->second, before.HeldByTenantOf(i))) << round;
          ++taken_for_others;
        }
      }
      ASSERT_GE(after.size(i), job.bounds.least) << round;
      ASSERT_LE(after.size(i), job.bounds.most) << round;
      if (job.deadline_seconds <= 0 || job.samples_left <= 0) continue;
      if (!MeetsDeadline(world, job, before.Speed(i))) continue;
      ASSERT_TRUE(MeetsDeadline(world, job, after.Speed(i))) << round;
      deadlines += after.size(i) != before.size(i);
    }
  }
  // The worlds have what the rules are about.
  EXPECT_GT(reclaims, 100u);
  EXPECT_GT(trades, 100u);
  EXPECT_GT(deadlines, 100u);
  EXPECT_GT(trades_between_tenants, 100u);
  EXPECT_GT(at_share, 100u);
  EXPECT_GT(taken_for_others, 100u);
}

}  // namespace
}  // namespace harmonaize::daemon
