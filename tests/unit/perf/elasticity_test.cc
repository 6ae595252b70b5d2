#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "perf/elasticity/cluster.h"
#include "perf/elasticity/figures.h"
#include "perf/elasticity/trace.h"

namespace harmonaize::elasticity {
namespace {

double Quantile(const std::vector<TraceJob>& trace, double part) {
  std::vector<double> seconds;
  for (const TraceJob& job : trace) seconds.push_back(job.StaticSeconds());
  std::sort(seconds.begin(), seconds.end());
  return seconds[static_cast<size_t>(part * static_cast<double>(seconds.size()))];
}

TEST(ElasticTrace, JobsHaveTheStatisticsOfThePublicTraces) {
  const std::vector<TraceJob> helios = MakeTrace({.jobs = 40000});
  EXPECT_NEAR(Quantile(helios, 0.5), 206, 15);
  double ranks = 0;
  int of_one = 0;
  for (const TraceJob& job : helios) {
    ranks += job.ranks;
    of_one += job.ranks == 1;
  }
  EXPECT_NEAR(ranks / 40000, 3.72, 0.3);
  EXPECT_GT(of_one, 20000);

  const std::vector<TraceJob> pai = MakeTrace({.pattern = Pattern::kPai, .jobs = 40000});
  EXPECT_NEAR(Quantile(pai, 0.5), 23 * 60, 60);
  EXPECT_NEAR(Quantile(pai, 0.9), 4.5 * 3600, 900);
}

TEST(ElasticTrace, WhichJobsAreElasticChangesNothingElse) {
  const std::vector<TraceJob> none = MakeTrace({.elastic_part = 0});
  const std::vector<TraceJob> some = MakeTrace({.elastic_part = 0.25});
  const std::vector<TraceJob> more = MakeTrace({.elastic_part = 0.5});
  ASSERT_EQ(none.size(), more.size());
  int elastic = 0;
  for (size_t i = 0; i < none.size(); ++i) {
    EXPECT_EQ(none[i].arrives_seconds, more[i].arrives_seconds);
    EXPECT_EQ(none[i].StaticSeconds(), more[i].StaticSeconds());
    EXPECT_FALSE(none[i].is_elastic);
    EXPECT_TRUE(more[i].is_elastic || !some[i].is_elastic);
    elastic += some[i].is_elastic;
  }
  EXPECT_NEAR(elastic, 125, 40);
  EXPECT_NE(MakeTrace({.seed = 2})[0].steps, none[0].steps);
}

Outcome RunAll(const std::vector<TraceJob>& trace, bool backfills, bool makes_offers) {
  return Cluster(
             trace,
             {.backfills = backfills, .begins_smaller = makes_offers, .makes_offers = makes_offers})
      .Run();
}

/// Returns the most places that jobs of static sizes have had at a time.
int32_t MostPlaces(const std::vector<TraceJob>& trace, const Outcome& outcome) {
  std::vector<std::pair<double, int32_t>> changes;
  for (size_t i = 0; i < trace.size(); ++i) {
    changes.emplace_back(outcome.jobs[i].began_seconds, trace[i].ranks);
    changes.emplace_back(outcome.jobs[i].ended_seconds, -trace[i].ranks);
  }
  std::sort(changes.begin(), changes.end());
  int32_t now = 0;
  int32_t most = 0;
  for (const auto& [at, ranks] : changes) most = std::max(most, now += ranks);
  return most;
}

TEST(ElasticCluster, StaticJobsRunForAsLongAsTheyAsk) {
  const std::vector<TraceJob> trace = MakeTrace({.load = 1.5, .elastic_part = 0});
  for (const bool backfills : {false, true}) {
    const Outcome outcome = RunAll(trace, backfills, false);
    for (size_t i = 0; i < trace.size(); ++i) {
      const JobOutcome& job = outcome.jobs[i];
      ASSERT_GE(job.began_seconds, trace[i].arrives_seconds);
      ASSERT_NEAR(job.ended_seconds - job.began_seconds, trace[i].StaticSeconds(), 1e-3);
      ASSERT_NEAR(job.rank_seconds, trace[i].ranks * trace[i].StaticSeconds(), 1e-2);
    }
    EXPECT_LE(MostPlaces(trace, outcome), 128);
    EXPECT_GT(MostPlaces(trace, outcome), 120) << "the cluster was full";
  }
}

TEST(ElasticCluster, OneComesAfterTheOtherUnlessJobsAreBackfilled) {
  const std::vector<TraceJob> trace = MakeTrace({.load = 1.5, .elastic_part = 0});
  const auto by_beginning = [](const JobOutcome& one, const JobOutcome& other) {
    return one.began_seconds < other.began_seconds;
  };
  const Outcome in_turn = RunAll(trace, false, false);
  EXPECT_TRUE(std::is_sorted(in_turn.jobs.begin(), in_turn.jobs.end(), by_beginning));
  const Outcome backfilled = RunAll(trace, true, false);
  EXPECT_FALSE(std::is_sorted(backfilled.jobs.begin(), backfilled.jobs.end(), by_beginning));
  EXPECT_LT(FiguresOf(backfilled).mean_wait_seconds, FiguresOf(in_turn).mean_wait_seconds);
}

TEST(ElasticCluster, OffersChangeNothingWhereNoJobIsElastic) {
  const std::vector<TraceJob> trace = MakeTrace({.load = 1.2, .elastic_part = 0});
  const Outcome with = RunAll(trace, true, true);
  const Outcome without = RunAll(trace, true, false);
  EXPECT_EQ(with.offers, 0);
  for (size_t i = 0; i < trace.size(); ++i) {
    ASSERT_NEAR(with.jobs[i].ended_seconds, without.jobs[i].ended_seconds, 1e-3) << i;
  }
}

TEST(ElasticCluster, AJobAloneGrowsToItsMost) {
  TraceJob job = {.ranks = 4,
                  .steps = 10000,
                  .scaling = {.computation = 4, .fixed = 0.01},
                  .is_elastic = true,
                  .least = 1,
                  .most = 16};
  const Outcome outcome =
      Cluster({job}, {.makes_offers = true, .tenants = {.declining = 0, .late = 0}}).Run();
  const double seconds = outcome.jobs[0].ended_seconds;
  EXPECT_LT(seconds, 0.4 * job.StaticSeconds());
  EXPECT_GT(seconds, 10000 * job.scaling.StepSeconds(16));
  EXPECT_GT(outcome.jobs[0].changes, 0);
  // What the job does is the same; a tenant that declines all offers has its static size.
  const Outcome declined =
      Cluster({job}, {.makes_offers = true, .tenants = {.declining = 1, .late = 0}}).Run();
  EXPECT_NEAR(declined.jobs[0].ended_seconds, job.StaticSeconds(), 1e-3);
  EXPECT_GT(declined.declined, 0);
  EXPECT_EQ(declined.declined, declined.offers);
}

TEST(ElasticCluster, ANewcomerBeginsOnPlacesThatAreTakenBack) {
  const TraceJob old = {.ranks = 64,
                        .steps = 100000,
                        .scaling = {.computation = 64},
                        .is_elastic = true,
                        .least = 16,
                        .most = 128};
  TraceJob newcomer = old;
  newcomer.arrives_seconds = 3600;
  newcomer.is_elastic = false;
  newcomer.least = newcomer.most = newcomer.ranks = 100;
  const Outcome outcome =
      Cluster({old, newcomer}, {.makes_offers = true, .tenants = {.declining = 0, .late = 0}})
          .Run();
  EXPECT_LT(outcome.jobs[1].began_seconds, 3600 + 120);
  EXPECT_LT(outcome.jobs[1].began_seconds, outcome.jobs[0].ended_seconds);
}

TEST(ElasticCluster, TheSameSeedGivesTheSameFigures) {
  const std::vector<TraceJob> trace = MakeTrace({.jobs = 200});
  const Figures one = FiguresOf(RunAll(trace, true, true));
  const Figures other = FiguresOf(RunAll(trace, true, true));
  EXPECT_EQ(one.mean_seconds, other.mean_seconds);
  EXPECT_EQ(one.changes, other.changes);
  EXPECT_GT(one.changes, 0);
  EXPECT_LE(one.use, 1);
}

}  // namespace
}  // namespace harmonaize::elasticity
