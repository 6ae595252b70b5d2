// The simulation of a job that fails and saves: nothing of its time is lost or counted twice, and
// what is known without a simulation comes out.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "daemon/checkpoint_advice/save_interval.h"
#include "perf/checkpoints/failure_trace.h"
#include "perf/checkpoints/saving_job.h"

namespace harmonaize::checkpoints {
namespace {

constexpr double kStep = 5;

const SaveCost kDisk = {"disk", daemon::SavePlace::kStorage, 20, 60, 300};

SavePolicy Fixed(double seconds) {
  return {.interval_seconds = seconds};
}

SavePolicy Advice(bool hears_notices = true) {
  return {.kind = SavePolicy::Kind::kAdvice, .hears_notices = hears_notices};
}

Outcome RunWith(const FailureOptions& options, const SavePolicy& policy,
                const SaveCost& cost = kDisk) {
  const std::vector<Failure> failures = MakeFailures(options);
  return SavingJob(options, failures, cost, policy, kStep).Run();
}

/// Returns the mean goodput over some seeds.
double Goodput(FailureOptions options, const SavePolicy& policy, const SaveCost& cost = kDisk) {
  constexpr int kSeeds = 10;
  double sum = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    options.seed = static_cast<uint64_t>(seed);
    sum += RunWith(options, policy, cost).goodput();
  }
  return sum / kSeeds;
}

TEST(FailureTrace, HasTheMeanThatIsAskedForWhateverTheShape) {
  for (const double shape : {0.7, 1.0, 2.0}) {
    const FailureOptions options{.hosts = 1000, .shape = shape, .seconds = 1000 * 86400.0};
    const auto failures = static_cast<double>(MakeFailures(options).size());
    EXPECT_NEAR(failures * options.MtbfSeconds() / options.seconds, 1, 0.05) << shape;
  }
}

TEST(FailureTrace, HasThePartsThatAreAskedFor) {
  const FailureOptions options{
      .hosts = 1000, .rank_part = 0.3, .announced_part = 0.4, .seconds = 1000 * 86400.0};
  const std::vector<Failure> failures = MakeFailures(options);
  double ranks = 0;
  double announced = 0;
  for (const Failure& failure : failures) {
    ranks += failure.is_rank ? 1 : 0;
    announced += failure.notice_seconds > 0 ? 1 : 0;
    EXPECT_FALSE(failure.is_rank && failure.notice_seconds > 0);
  }
  EXPECT_NEAR(ranks / static_cast<double>(failures.size()), 0.3, 0.03);
  EXPECT_NEAR(announced / static_cast<double>(failures.size()), 0.4, 0.03);
}

TEST(SavingJob, AllOfItsTimeIsSomewhere) {
  for (const double hosts : {8.0, 512.0, 4096.0}) {
    for (const SavePolicy& policy : {Fixed(600), Fixed(10800), Advice(), Advice(false)}) {
      const FailureOptions options{.hosts = hosts};
      const Outcome outcome = RunWith(options, policy);
      EXPECT_NEAR(outcome.useful + outcome.lost + outcome.stalled + outcome.down, options.seconds,
                  1)
          << hosts;
      EXPECT_GE(outcome.useful, 0);
    }
  }
}

TEST(SavingJob, WithoutFailuresItLosesItsStallsAlone) {
  const std::vector<Failure> none;
  const FailureOptions options;
  const Outcome outcome = SavingJob(options, none, kDisk, Fixed(980), 0).Run();
  EXPECT_EQ(outcome.lost, 0);
  EXPECT_EQ(outcome.down, 0);
  EXPECT_NEAR(outcome.goodput(), 960.0 / 980, 1e-3) << "an interval counts from begin to begin";
}

TEST(SavingJob, AFailureCostsWhatIsNotSafe) {
  const FailureOptions options{.seconds = 10000};
  // The checkpoint of 3,000 s is not safe yet, and that of 2,000 s is.
  const std::vector<Failure> failures = {{.at_seconds = 3050}};
  const Outcome outcome = SavingJob(options, failures, kDisk, Fixed(1000), 0).Run();
  EXPECT_EQ(outcome.failures, 1);
  EXPECT_EQ(outcome.down, 300);
  EXPECT_EQ(outcome.lost, 980 + 30) << "all since 2,000 s, but for the stalls";
}

TEST(SavingJob, YoungsIntervalIsBestOfFixedOnes) {
  const FailureOptions options{.hosts = 256, .announced_part = 1e-9};
  const double young = daemon::YoungInterval(kDisk.stall_seconds, options.MtbfSeconds());
  const double best = Goodput(options, Fixed(young));
  EXPECT_GT(best, Goodput(options, Fixed(young * 3)));
  EXPECT_GT(best, Goodput(options, Fixed(young / 3)));
  // First order: the stalls, half an interval and what is not safe yet, and the restart.
  const double mtbf = options.MtbfSeconds();
  const double lost = kDisk.stall_seconds / young + (young / 2 + 60 + 300) / mtbf;
  EXPECT_NEAR(best, 1 - lost, 0.01);
}

TEST(SavingJob, AdviceComesNearWhatTheTrueRateGives) {
  for (const double hosts : {64.0, 512.0, 2048.0}) {
    for (const double shape : {0.7, 1.0}) {
      const FailureOptions options{.hosts = hosts, .shape = shape};
      const double young = daemon::YoungInterval(kDisk.stall_seconds, options.MtbfSeconds());
      EXPECT_GT(Goodput(options, Advice(false)), Goodput(options, Fixed(young)) - 0.01)
          << hosts << " hosts, shape " << shape;
    }
  }
}

TEST(SavingJob, AdviceThatKnowsTheJobIsAsGoodInMinutesAsInWeeks) {
  // A failure in 20 s: the daemon could not learn that in an hour, as its priors are of many days.
  const FailureOptions options{.hosts = 2,
                               .per_thousand_host_days = 1000 * 86400.0 / (2 * 20),
                               .announced_part = 1e-9,
                               .seconds = 3600};
  const SaveCost cost = {"fast", daemon::SavePlace::kPeer, 0.1, 0.2, 1};
  SavePolicy known = Advice(false);
  known.knows_job = true;
  known.least_seconds = 1;
  const double young = daemon::YoungInterval(cost.stall_seconds, 20);
  EXPECT_NEAR(Goodput(options, known, cost), Goodput(options, Fixed(young), cost), 0.02);
  SavePolicy bounded = known;
  bounded.least_seconds = 15;
  EXPECT_LT(Goodput(options, bounded, cost), Goodput(options, known, cost) - 0.1);
  SavePolicy late = known;
  late.delay_seconds = 5;
  EXPECT_LT(Goodput(options, late, cost), Goodput(options, known, cost) - 0.05);
  EXPECT_LT(Goodput(options, Advice(false), cost), Goodput(options, known, cost) - 0.3);
}

TEST(SavingJob, NoticesSaveWork) {
  const FailureOptions options{.hosts = 512, .announced_part = 0.6};
  EXPECT_GT(Goodput(options, Advice(true)), Goodput(options, Advice(false)) + 0.003);
}

}  // namespace
}  // namespace harmonaize::checkpoints
