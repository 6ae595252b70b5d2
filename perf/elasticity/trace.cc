#include "perf/elasticity/trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "perf/elasticity/random.h"

namespace harmonaize::elasticity {
namespace {

/// Sizes of jobs, in ranks. The traces' users ask for powers of two nearly always.
constexpr std::array<int32_t, 6> kSizes = {1, 2, 4, 8, 16, 32};

/// What is drawn of a public trace.
struct Statistics {
  double median_seconds = 0;
  double sigma = 0;  // of the logarithm of a job's time
  std::array<double, 6> size_chances = {};
};

/// Helios: jobs with GPUs have a median of 206 s and a mean of 6,652 s, which a lognormal
/// distribution has with a sigma of sqrt(2 ln(6652 / 206)). More than half of them have one GPU,
/// and they have 3.72 on average; the chances are ours, and give 3.6. Source: Hu et al.,
/// Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters, SC
/// 2021.
constexpr Statistics kHelios = {
    .median_seconds = 206, .sigma = 2.636, .size_chances = {0.60, 0.11, 0.07, 0.17, 0.03, 0.02}};

/// PAI: instances run for 23 minutes at the median and 4.5 hours at the 90th percentile, which a
/// lognormal distribution has with a sigma of ln(270 / 23) / 1.2816. The sizes are those above.
/// Source: Weng et al., MLaaS in the Wild, NSDI 2022.
constexpr Statistics kPai = {
    .median_seconds = 1380, .sigma = 1.922, .size_chances = {0.60, 0.11, 0.07, 0.17, 0.03, 0.02}};

/// Philly: a mean of 28,329 s and 1.75 GPUs for a job (as Hu et al. tell of it), and one job in two
/// hundred runs for more than a week, which a lognormal distribution has with a median of 5,023 s
/// and a sigma of 1.86. The chances are ours, and give 1.7. Source: Jeon et al., Analysis of
/// Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads, ATC 2019.
constexpr Statistics kPhilly = {
    .median_seconds = 5023, .sigma = 1.86, .size_chances = {0.82, 0.08, 0.05, 0.04, 0.01, 0.0}};

/// Longest and shortest run of a job, in seconds. The traces have jobs of weeks; with some hundred
/// jobs one of these would be most of the whole trace. Below ten seconds a job is one that fails.
constexpr double kLongestSeconds = 2 * 86400;
constexpr double kShortestSeconds = 10;

/// Bounds of the part of a step that goes for the exchange at the size that a job asks for, or at
/// two ranks. Ours: users ask for sizes at which most of the time is computation.
constexpr double kLeastExchange = 0.05;
constexpr double kMostExchange = 0.35;
/// The part of the exchange that grows with hops, and that of the computation which is fixed, at
/// the size that a job asks for. Ours, and not the prior of the daemon's model.
constexpr double kMostHopPart = 0.3;
constexpr double kMostFixedPart = 0.15;
/// By how many times an elastic job may be smaller or larger than what it asks for. Ours.
constexpr int32_t kElasticTimes = 4;
/// The largest number of ranks of any job.
constexpr int32_t kMostRanks = 64;

const Statistics& StatisticsOf(Pattern pattern) {
  switch (pattern) {
    case Pattern::kHelios: return kHelios;
    case Pattern::kPai: return kPai;
    case Pattern::kPhilly: return kPhilly;
  }
  return kHelios;
}

/// Returns how many jobs come at an hour of the day, as a part of the busiest hour: Helios has its
/// fewest at night, and dips at noon and at six. The figures are ours, read off what its text says.
double RateAtHour(double hour) {
  if (hour < 8) return 0.35;
  if (hour >= 12 && hour < 13) return 0.7;
  if (hour >= 18 && hour < 19) return 0.7;
  if (hour >= 22) return 0.6;
  return 1;
}

double DrawArrival(Random* random, double span_seconds) {
  for (;;) {
    const double at = random->Uniform(0, span_seconds);
    // The trace begins at eight in the morning.
    const double hour = std::fmod(8 + at / 3600, 24);
    if (random->Uniform(0, 1) < RateAtHour(hour)) return at;
  }
}

Scaling DrawScaling(Random* random, int32_t ranks) {
  const double step = random->LogUniform(0.1, 2);
  const double exchange = step * random->Uniform(kLeastExchange, kMostExchange);
  const double hops = exchange * random->Uniform(0, kMostHopPart);
  const double fixed = (step - exchange) * random->Uniform(0, kMostFixedPart);
  // A single rank exchanges nothing; what it would exchange with another one is drawn.
  const int32_t exchanging = std::max(ranks, 2);
  const double others = exchanging - 1;
  const double computation = ranks == 1 ? step - fixed : step - exchange - fixed;
  return {.computation = computation * ranks,
          .fixed = fixed,
          .bytes = (exchange - hops) * exchanging / others,
          .hop = hops / others};
}

TraceJob DrawJob(Random* random, const Statistics& statistics) {
  TraceJob job;
  job.ranks = kSizes[random->Choice(statistics.size_chances)];
  job.scaling = DrawScaling(random, job.ranks);
  const double seconds = std::clamp(random->LogNormal(statistics.median_seconds, statistics.sigma),
                                    kShortestSeconds, kLongestSeconds);
  job.steps = seconds / job.scaling.StepSeconds(job.ranks);
  job.state_bytes = random->LogUniform(1e8, 1e10);
  job.least = job.ranks;
  job.most = job.ranks;
  return job;
}

}  // namespace

double Scaling::ExchangeSeconds(int32_t ranks) const {
  const double others = ranks - 1;
  return bytes * others / ranks + hop * others;
}

double Scaling::StepSeconds(int32_t ranks) const {
  return computation / ranks + fixed + ExchangeSeconds(ranks);
}

std::optional<Pattern> PatternNamed(std::string_view name) {
  if (name == "helios") return Pattern::kHelios;
  if (name == "pai") return Pattern::kPai;
  if (name == "philly") return Pattern::kPhilly;
  return std::nullopt;
}

std::vector<TraceJob> MakeTrace(const TraceOptions& options) {
  Random random(options.seed);
  const Statistics& statistics = StatisticsOf(options.pattern);
  std::vector<TraceJob> jobs;
  double work = 0;
  for (int i = 0; i < options.jobs; ++i) {
    TraceJob job = DrawJob(&random, statistics);
    job.is_elastic = random.Uniform(0, 1) < options.elastic_part;
    if (job.is_elastic) {
      job.least = std::max(1, job.ranks / kElasticTimes);
      job.most = std::min({kMostRanks, options.places, job.ranks * kElasticTimes});
    }
    work += job.ranks * job.StaticSeconds();
    jobs.push_back(job);
  }
  const double span = work / (options.places * options.load);
  for (TraceJob& job : jobs) job.arrives_seconds = DrawArrival(&random, span);
  std::stable_sort(jobs.begin(), jobs.end(), [](const TraceJob& one, const TraceJob& other) {
    return one.arrives_seconds < other.arrives_seconds;
  });
  return jobs;
}

}  // namespace harmonaize::elasticity
