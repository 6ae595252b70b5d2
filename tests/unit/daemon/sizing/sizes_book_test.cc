#include "daemon/sizing/sizes_book.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace harmonaize::daemon {
namespace {

constexpr double kNow = 1e9;
constexpr uint32_t kAlice = 1001;
constexpr uint32_t kBob = 1002;

JobSizeView AView(uint32_t user, uint8_t job, int ranks_here, int ranks) {
  JobSizeView view{.job = std::vector<uint8_t>(16, job),
                   .user = user,
                   .group = ranks > 0 ? uint64_t{user} * 100 + job : 0,
                   .label = "train",
                   .ranks_here = ranks_here,
                   .ranks = ranks,
                   .room = 4,
                   .least = 1,
                   .most = 16};
  if (ranks > 0) view.seen = {{ranks, 64, 1, 0.1}};
  return view;
}

HostSizesMessage AHost(int free, std::vector<JobSizeView> jobs) {
  return {.host = "host", .places = 8, .free = free, .jobs = std::move(jobs)};
}

SizingLook LookAt(SizesBook& book, double now = kNow, int64_t most_of_tenant = 0) {
  return book.Look(now, {}, [most_of_tenant](uint32_t) { return most_of_tenant; });
}

TEST(SizesBook, PutsTogetherWhatHostsTellOfAJob) {
  SizesBook book(10);
  JobSizeView second = AView(kAlice, 1, 1, 3);
  second.seen.clear();
  second.quiet_seconds = 5;
  book.Take(1, AHost(5, {AView(kAlice, 1, 2, 3)}), kNow);
  book.Take(2, AHost(6, {second}), kNow);
  const SizingLook look = LookAt(book);
  ASSERT_EQ(look.hosts.size(), 2u);
  ASSERT_EQ(look.jobs.size(), 1u);
  EXPECT_TRUE(look.jobs[0].is_whole);
  EXPECT_TRUE(look.jobs[0].knows_speed);
  const ElasticJob& job = look.world.jobs[0];
  EXPECT_EQ(job.ranks, (std::vector<int32_t>{2, 1}));
  EXPECT_EQ(job.room, (std::vector<int32_t>{4, 4}));
  EXPECT_EQ(job.quiet_until_seconds, kNow + 5);
  EXPECT_FALSE(job.is_asked);
  EXPECT_NEAR(job.speed.StepSeconds(3), 1, 1e-9);
  EXPECT_EQ(look.world.hosts[1].free_places, 6);
}

TEST(SizesBook, AJobOfWhichARankIsElsewhereIsLeftAlone) {
  SizesBook book(10);
  book.Take(1, AHost(5, {AView(kAlice, 1, 2, 3)}), kNow);
  const SizingLook look = LookAt(book);
  EXPECT_FALSE(look.jobs[0].is_whole);
  EXPECT_TRUE(look.world.jobs[0].is_asked);
}

TEST(SizesBook, AgentsWithoutRanksBringRoom) {
  SizesBook book(10);
  book.Take(1, AHost(0, {AView(kAlice, 1, 2, 2)}), kNow);
  book.Take(2, AHost(8, {AView(kAlice, 1, 0, 0)}), kNow);
  const SizingLook look = LookAt(book);
  ASSERT_EQ(look.jobs.size(), 1u);
  EXPECT_EQ(look.world.jobs[0].ranks, (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(look.world.jobs[0].room, (std::vector<int32_t>{4, 4}));
}

TEST(SizesBook, WhatAHostHasSeenWithoutRanksCountsAsOlder) {
  SizesBook book(10);
  JobSizeView left = AView(kAlice, 1, 0, 0);
  left.seen = {{1, 64, 4, 0}, {2, 64, 3, 0.1}};
  JobSizeView now = AView(kAlice, 1, 2, 2);
  now.seen = {{4, 64, 1, 0.1}, {8, 64, 0.6, 0.1}, {2, 64, 2, 0.1}};
  book.Take(1, AHost(0, {now}), kNow);
  book.Take(2, AHost(8, {left}), kNow);
  const ElasticJob job = LookAt(book).world.jobs.at(0);
  EXPECT_NEAR(job.speed.StepSeconds(2), 2, 1e-9) << "the newest one is met";
  EXPECT_GT(job.speed.Confidence(1), 0.9) << "one rank has been seen";
}

// Containers of one user may both have a job of one name.
TEST(SizesBook, JobsOfOneUserAndNameAreNotMixedUp) {
  SizesBook book(10);
  JobSizeView other = AView(kAlice, 1, 2, 2);
  other.group = 7;
  book.Take(1, AHost(5, {AView(kAlice, 1, 2, 2), other}), kNow);
  book.Take(2, AHost(5, {AView(kAlice, 1, 0, 0)}), kNow);
  const SizingLook look = LookAt(book);
  ASSERT_EQ(look.jobs.size(), 2u);
  for (const ElasticJob& job : look.world.jobs) {
    EXPECT_EQ(job.ranks, (std::vector<int32_t>{2, 0}));
    EXPECT_EQ(job.room, (std::vector<int32_t>{4, 0}));
    EXPECT_TRUE(job.is_asked) << "it is left alone";
  }
}

TEST(SizesBook, AJobOfUnknownSpeedDoesNotGrow) {
  SizesBook book(10);
  JobSizeView view = AView(kAlice, 1, 2, 2);
  view.seen.clear();
  book.Take(1, AHost(6, {view}), kNow);
  const SizingLook look = LookAt(book);
  EXPECT_FALSE(look.jobs[0].knows_speed);
  EXPECT_EQ(look.world.jobs[0].bounds.most, 2);
}

TEST(SizesBook, WhatWasToldLongAgoIsForgotten) {
  SizesBook book(10);
  book.Take(1, AHost(5, {}), kNow);
  book.Take(2, AHost(5, {}), kNow + 8);
  EXPECT_EQ(LookAt(book, kNow + 9).hosts.size(), 2u);
  EXPECT_EQ(LookAt(book, kNow + 12).hosts.size(), 1u);
  book.Forget(2);
  EXPECT_TRUE(LookAt(book, kNow + 12).hosts.empty());
}

TEST(SizesBook, TenantsShareThePlacesOfElasticJobs) {
  SizesBook book(10);
  book.Take(1, AHost(4, {AView(kAlice, 1, 2, 2), AView(kBob, 2, 2, 2)}), kNow);
  SizingLook look = LookAt(book);
  EXPECT_EQ(look.world.shares, (std::map<uint32_t, int32_t>{{kAlice, 4}, {kBob, 4}}));
  look = LookAt(book, kNow, 3);
  EXPECT_EQ(look.world.shares, (std::map<uint32_t, int32_t>{{kAlice, 3}, {kBob, 3}}));
}

// One that tells of many jobs has no more than one that tells of one.
TEST(SizesBook, ATenantOfManyJobsHasOneShare) {
  SizesBook book(10);
  book.Take(1,
            AHost(2, {AView(kAlice, 1, 1, 1), AView(kAlice, 3, 1, 1), AView(kAlice, 4, 1, 1),
                      AView(kBob, 2, 1, 1)}),
            kNow);
  EXPECT_EQ(LookAt(book).world.shares, (std::map<uint32_t, int32_t>{{kAlice, 3}, {kBob, 3}}));
}

}  // namespace
}  // namespace harmonaize::daemon
