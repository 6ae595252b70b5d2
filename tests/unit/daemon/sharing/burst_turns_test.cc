// Turns of the bursts of several jobs, where these collide.

#include "daemon/sharing/burst_turns.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace harmonaize::daemon {
namespace {

constexpr double kCapacity = 50e6;  // bytes a second, of each edge
constexpr double kPause = 0.2;

class BurstTurnsTest : public ::testing::Test {
 protected:
  struct Job {
    double bytes = 0;  // bytes of a burst
    double weight = 1;
    BurstTurns::Edges edges{};
    double pause = kPause;
    double slowed = 2;    // factor by which its bursts take longer than alone
    uint32_t tenant = 0;  // 0: one of its own, with the job's number
  };
  JobId IdOf(uint32_t number) const {
    const uint32_t tenant = number > jobs_.size() ? 0 : jobs_[number - 1].tenant;
    return {tenant == 0 ? number : tenant, number};
  }
  /// Adds a job and returns its number, from 1 on; its leader is the peer of that number.
  uint32_t Add(double bytes, std::vector<CrossedEdge> edges = {{0, 1}}, double weight = 1) {
    jobs_.push_back({bytes, weight, std::make_shared<const std::vector<CrossedEdge>>(edges)});
    return static_cast<uint32_t>(jobs_.size());
  }
  /// Passes this many bursts of all jobs, which are told of as they begin.
  void Pass(int bursts) {
    for (int i = 0; i < bursts; ++i) {
      ++burst_;
      for (uint32_t number = 1; number <= jobs_.size(); ++number) Tell(number);
      now_ += 1;
      turns_.Settle([](int) { return kCapacity; }, answer_seconds_, now_);
    }
  }
  void Tell(uint32_t number) {
    const Job& job = jobs_[number - 1];
    const auto sent = static_cast<uint64_t>(job.bytes * static_cast<double>(burst_));
    const uint32_t tenant = IdOf(number).tenant;
    turns_.TakeSent(IdOf(number), {static_cast<int>(number), 100, 0}, job.edges,
                    {tenant, number, job.weight, 0, sent}, now_);
    const double burst = job.slowed * job.bytes / kCapacity;
    turns_.TakeRhythm({tenant, number, burst_, burst, job.pause, burst + job.pause, 0}, now_);
  }
  /// Asks for a job's turn, and returns the jobs whose turns begin then.
  std::vector<uint64_t> Ask(uint32_t number, uint64_t burst = 1) {
    return Numbers(turns_.Take(number, {1, IdOf(number).tenant, number, burst, false}, now_));
  }
  std::vector<uint64_t> End(uint32_t number, uint64_t burst = 1) {
    return Numbers(turns_.Take(number, {1, IdOf(number).tenant, number, burst, true}, now_));
  }
  static std::vector<uint64_t> Numbers(const std::vector<BurstTurns::Turn>& turns) {
    std::vector<uint64_t> numbers;
    for (const BurstTurns::Turn& turn : turns) {
      EXPECT_EQ(turn.leader, turn.communicator);
      numbers.push_back(turn.communicator);
    }
    return numbers;
  }
  using Turns = std::vector<uint64_t>;

  BurstTurns turns_;
  std::vector<Job> jobs_;
  uint64_t burst_ = 0;
  double answer_seconds_ = 0;
  double now_ = 1000;
};

TEST_F(BurstTurnsTest, JobsThatCollideTakeTurns) {
  const uint32_t one = Add(8e6);
  const uint32_t other = Add(8e6);
  Pass(10);
  EXPECT_NEAR(turns_.LongestWait({one, one}), 1.25 * 0.16, 0.001);
  EXPECT_EQ(Ask(one), Turns{one});
  EXPECT_EQ(Ask(other), Turns{});
  EXPECT_EQ(End(one), Turns{other});
  EXPECT_EQ(Ask(one, 2), Turns{});
  EXPECT_EQ(End(other), Turns{one});
  EXPECT_EQ(turns_.WaitsOf({one, one}), 1u);
  EXPECT_EQ(turns_.WaitsOf({other, other}), 1u);
}

TEST_F(BurstTurnsTest, WhoMeetsNobodyNeedNotAsk) {
  const uint32_t one = Add(8e6, {{0, 1}});
  const uint32_t other = Add(8e6, {{1, 1}});
  // A tenth of what it sends crosses an edge of the others.
  const uint32_t third = Add(8e6, {{2, 1}, {0, 0.04}, {1, 0.04}});
  Pass(10);
  for (const uint32_t job : {one, other, third}) EXPECT_EQ(turns_.LongestWait({job, job}), 0);
}

TEST_F(BurstTurnsTest, ShortBurstsNeedNotAsk) {
  Add(8e6);
  const uint32_t small = Add(1e5);
  Pass(10);
  EXPECT_EQ(turns_.LongestWait({small, small}), 0);
  EXPECT_FALSE(turns_.MeanOf({small, small}, {2, 100, 0}).has_value());
}

TEST_F(BurstTurnsTest, NobodyAsksAControllerThatIsSlowToAnswer) {
  const uint32_t one = Add(8e6);  // 0.16 s
  Add(8e6);
  answer_seconds_ = 0.02;
  Pass(10);
  EXPECT_EQ(turns_.LongestWait({one, one}), 0);
  answer_seconds_ = 0.01;
  Pass(10);
  EXPECT_GT(turns_.LongestWait({one, one}), 0);
}

TEST_F(BurstTurnsTest, WhoSendsAllTheTimeNeedNotAsk) {
  const uint32_t one = Add(8e6);
  const uint32_t greedy = Add(8e6);
  jobs_[greedy - 1].pause = 0.001;
  Pass(10);
  EXPECT_EQ(turns_.LongestWait({greedy, greedy}), 0);
  EXPECT_EQ(turns_.LongestWait({one, one}), 0);
}

TEST_F(BurstTurnsTest, WhoHasLittleOfALinkPausesAllTheSame) {
  const uint32_t heavy = Add(8e6, {{0, 1}}, 8);
  const uint32_t light = Add(8e6);  // 0.16 s, but for the other one
  jobs_[light - 1].pause = 0.05;
  jobs_[light - 1].slowed = 9;
  Pass(10);
  EXPECT_GT(turns_.LongestWait({light, light}), 0);
  EXPECT_GT(turns_.LongestWait({heavy, heavy}), 0);
}

TEST_F(BurstTurnsTest, TheMeanIsThatOfWholeTurns) {
  const uint32_t one = Add(8e6);
  Pass(10);
  const auto mean = turns_.MeanOf({one, one}, {1, 100, 0});
  ASSERT_TRUE(mean.has_value());
  EXPECT_NEAR(mean->bytes_per_second, 8e6 / 0.52, 1e3);
  EXPECT_NEAR(mean->sending, 0.32 / 0.52, 0.01);
}

// A tenant cannot send all the time under the mean of the small bursts that it had before.
TEST_F(BurstTurnsTest, ABurstThatDoesNotEndHasNoMean) {
  const uint32_t one = Add(8e6);
  Pass(10);
  const auto send = [&](double bytes) {
    const auto sent = static_cast<uint64_t>(8e6 * static_cast<double>(burst_) + bytes);
    turns_.TakeSent({one, one}, {1, 100, 0}, jobs_[0].edges, {one, one, 1, 0, sent}, now_);
    turns_.TakeRhythm({one, one, burst_, 0.32, kPause, 0.52, 1}, now_);
  };
  send(10e6);
  EXPECT_TRUE(turns_.MeanOf({one, one}, {1, 100, 0}).has_value());
  send(40e6);
  EXPECT_FALSE(turns_.MeanOf({one, one}, {1, 100, 0}).has_value());
  // The next burst counts anew.
  ++burst_;
  send(40e6);
  EXPECT_TRUE(turns_.MeanOf({one, one}, {1, 100, 0}).has_value());
}

TEST_F(BurstTurnsTest, TenantsComeByTurnsHoweverManyJobsTheyHave) {
  const uint32_t single = Add(8e6);
  for (int i = 0; i < 5; ++i) {
    Add(8e6);
    jobs_.back().tenant = 1000;
  }
  Pass(10);
  EXPECT_EQ(Ask(2), Turns{2});
  for (uint32_t job = 3; job <= 6; ++job) {
    now_ += 0.001;
    EXPECT_EQ(Ask(job), Turns{});
  }
  EXPECT_EQ(End(2), Turns{3});
  now_ += 0.01;
  EXPECT_EQ(Ask(single), Turns{});
  now_ += 0.01;
  EXPECT_EQ(End(3), Turns{single});
  // It waits for one of their bursts, not for all.
  EXPECT_NEAR(turns_.LongestWait({single, single}), 1.25 * 0.16, 1e-6);
}

TEST_F(BurstTurnsTest, AShortBurstDoesNotWaitForALongOne) {
  const uint32_t large = Add(16e6);  // 0.32 s
  const uint32_t small = Add(4e6);   // 0.08 s
  Pass(10);
  EXPECT_EQ(Ask(large), Turns{large});
  now_ += 0.1;
  EXPECT_EQ(Ask(small), Turns{small});  // shared: it would be over before the large one
  EXPECT_EQ(End(small), Turns{});
  now_ += 0.15;
  EXPECT_EQ(Ask(small, 2), Turns{});  // 0.07 s are left
  EXPECT_EQ(End(large), Turns{small});
}

TEST_F(BurstTurnsTest, WhoWeighsMoreWaitsForLess) {
  const uint32_t light = Add(8e6);
  const uint32_t heavy = Add(8e6, {{0, 1}}, 4);
  Pass(10);
  EXPECT_EQ(Ask(light), Turns{light});
  now_ += 0.08;
  EXPECT_EQ(Ask(heavy), Turns{heavy});  // would have four fifths of the link
  EXPECT_EQ(End(heavy), Turns{});
  now_ += 0.04;
  EXPECT_EQ(Ask(heavy, 2), Turns{});
}

TEST_F(BurstTurnsTest, WhoHasWaitedForLongestComesFirst) {
  const uint32_t one = Add(8e6);
  const uint32_t second = Add(8e6);
  const uint32_t third = Add(8e6);
  Pass(10);
  EXPECT_EQ(Ask(one), Turns{one});
  now_ += 0.01;
  EXPECT_EQ(Ask(third), Turns{});
  now_ += 0.01;
  EXPECT_EQ(Ask(second), Turns{});
  EXPECT_EQ(End(one), Turns{third});
  EXPECT_EQ(End(third), Turns{second});
}

TEST_F(BurstTurnsTest, ABurstThatIsOverdueIsNotWaitedFor) {
  const uint32_t one = Add(8e6);
  const uint32_t other = Add(8e6);
  Pass(10);
  EXPECT_EQ(Ask(one), Turns{one});
  now_ += 0.5;
  EXPECT_EQ(Ask(other), Turns{other});
}

TEST_F(BurstTurnsTest, WhoAsksAgainHasEnded) {
  const uint32_t one = Add(8e6);
  const uint32_t other = Add(8e6);
  Pass(10);
  EXPECT_EQ(Ask(one), Turns{one});
  EXPECT_EQ(Ask(other), Turns{});
  EXPECT_EQ(Ask(one, 2), Turns{other});
  EXPECT_EQ(End(one), Turns{});  // of the burst before
  EXPECT_EQ(End(other), Turns{one});
}

TEST_F(BurstTurnsTest, AHomeThatIsGoneIsNotWaitedFor) {
  const uint32_t one = Add(8e6);
  const uint32_t other = Add(8e6);
  Pass(10);
  EXPECT_EQ(Ask(one), Turns{one});
  EXPECT_EQ(Ask(other), Turns{});
  EXPECT_EQ(Numbers(turns_.Forget(one, now_)), Turns{other});
}

TEST_F(BurstTurnsTest, NobodyIsToldToWaitForLongerThanIsTaken) {
  const uint32_t one = Add(1.5e9);  // 30 s
  Add(1.5e9);
  Add(1.5e9);
  for (Job& job : jobs_) job.pause = 20;
  Pass(10);
  EXPECT_EQ(turns_.LongestWait({one, one}), JobWait::kLongestSeconds);
}

TEST_F(BurstTurnsTest, StrangersHaveTheirTurnAtOnce) {
  EXPECT_EQ(Ask(7), Turns{7});
  EXPECT_EQ(End(7), Turns{});
}

TEST_F(BurstTurnsTest, AJobWithoutARhythmIsNoNeighbourAnyMore) {
  const uint32_t one = Add(8e6);
  Add(8e6);
  Pass(10);
  ASSERT_GT(turns_.LongestWait({one, one}), 0);
  for (int i = 0; i < 10; ++i) {
    ++burst_;
    Tell(one);  // the other is silent
    now_ += 1;
    turns_.Settle([](int) { return kCapacity; }, answer_seconds_, now_);
  }
  EXPECT_EQ(turns_.LongestWait({one, one}), 0);
}

// However jobs come, go and vanish, no job waits while none sends that it may collide with.
TEST_F(BurstTurnsTest, NobodyWaitsForNothing) {
  constexpr int kSteps = 20000;
  std::mt19937 random(7);
  const auto draw = [&random](int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(random);
  };
  std::vector<std::set<int>> edges_of;
  for (int i = 0; i < 6; ++i) {
    std::vector<CrossedEdge> edges;
    for (int edge = i / 2; edge <= i / 2 + 1; ++edge) edges.push_back({edge, 1});
    edges_of.push_back({i / 2, i / 2 + 1});
    Add(2e6 * (1 + draw(4)), edges);
  }
  Pass(10);
  std::map<uint32_t, uint64_t> waiting;  // the bursts
  std::map<uint32_t, uint64_t> sending;
  uint64_t next = 100;
  int turns = 0;
  for (int step = 0; step < kSteps; ++step) {
    now_ += 0.001 * draw(30);
    const auto job = static_cast<uint32_t>(1 + draw(6));
    Turns given;
    if (draw(50) == 0) {
      waiting.erase(job);
      sending.erase(job);
      given = Numbers(turns_.Forget(job, now_));
    } else if (sending.contains(job) && draw(4) == 0) {
      sending.erase(job);
      waiting[job] = ++next;
      given = Ask(job, next);
    } else if (sending.contains(job)) {
      given = End(job, sending.extract(job).mapped());
    } else if (!waiting.contains(job)) {
      waiting[job] = ++next;
      given = Ask(job, next);
    }
    for (const uint64_t one : given) {
      const auto number = static_cast<uint32_t>(one);
      ASSERT_TRUE(waiting.contains(number)) << "step " << step;
      sending[number] = waiting.extract(number).mapped();
      ++turns;
    }
    for (const auto& [waits, burst] : waiting) {
      bool any = false;
      for (const auto& [sends, its_burst] : sending) {
        for (const int edge : edges_of[waits - 1]) any |= edges_of[sends - 1].contains(edge);
      }
      ASSERT_TRUE(any) << "job " << waits << " waits for nobody at step " << step;
    }
  }
  EXPECT_GT(turns, kSteps / 10);
}

}  // namespace
}  // namespace harmonaize::daemon
