// Fixed intervals between checkpoints against the daemon's advice, by simulation.

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "daemon/checkpoint_advice/save_interval.h"
#include "perf/checkpoints/failure_trace.h"
#include "perf/checkpoints/saving_job.h"

namespace {

using namespace harmonaize::checkpoints;
using Json = nlohmann::ordered_json;

constexpr char kDescription[] =
    "simulate_checkpoints: which part of a job's time is useful, by when it saves.";

constexpr char kFooter[] =
    R"(A job runs for weeks, fails, and goes back to its last safe checkpoint. Goodput is the useful part of
all its time. Each figure is the mean over the seeds, with the standard deviation of one run; all ways
to save have the same failures. docs/checkpoint-advice.md says what is assumed.

Examples:
  simulate_checkpoints
  simulate_checkpoints --hosts 512 --shape 0.7 --announced 0 --json)";

struct Options {
  FailureOptions failures;
  std::vector<double> hosts = {8, 64, 512, 2048};
  double days = 28;
  double step_seconds = 5;
  int seeds = 20;
  bool json = false;
};

/// One way to choose when to save.
struct Arm {
  std::string name;
  SavePolicy policy;
  bool is_young = false;  ///< The interval is Young's for the true rate.
};

std::vector<Arm> Arms() {
  const auto fixed = [](std::string name, double seconds) {
    return Arm{std::move(name), {.interval_seconds = seconds}};
  };
  return {fixed("every 10 min", 600),
          fixed("every 30 min", 1800),
          fixed("every hour", 3600),
          fixed("every 3 h", 3 * 3600),
          Arm{"Young, true rate", {}, true},
          Arm{"advice, no notices", {.kind = SavePolicy::Kind::kAdvice, .hears_notices = false}},
          Arm{"advice", {.kind = SavePolicy::Kind::kAdvice}}};
}

std::vector<SaveCost> Costs() {
  using enum harmonaize::daemon::SavePlace;
  return {{"torch.save", kStorage, 60, 60, 300},
          {"DCP, asynchronous", kStorage, 5, 60, 300},
          {"memory of a peer", kPeer, 0.5, 5, 60}};
}

/// The mean of some values, and their standard deviation.
struct MeanOf {
  explicit MeanOf(const std::vector<double>& values) {
    for (const double value : values) mean += value / static_cast<double>(values.size());
    for (const double value : values) deviation += (value - mean) * (value - mean);
    deviation = std::sqrt(deviation / std::max<double>(1, static_cast<double>(values.size()) - 1));
  }
  double mean = 0;
  double deviation = 0;
};

Outcome RunOnce(const Options& options, double hosts, const SaveCost& cost, const Arm& arm,
                uint64_t seed) {
  FailureOptions failures = options.failures;
  failures.hosts = hosts;
  failures.seconds = options.days * 86400;
  failures.seed = seed;
  const std::vector<Failure> trace = MakeFailures(failures);
  SavePolicy policy = arm.policy;
  if (arm.is_young) {
    policy.interval_seconds =
        harmonaize::daemon::YoungInterval(cost.stall_seconds, failures.MtbfSeconds());
  }
  return SavingJob(failures, trace, cost, policy, options.step_seconds).Run();
}

Json FiguresOf(const Options& options, double hosts, const SaveCost& cost, const Arm& arm) {
  std::vector<double> goodput;
  Outcome sum;
  for (int seed = 1; seed <= options.seeds; ++seed) {
    const Outcome one = RunOnce(options, hosts, cost, arm, static_cast<uint64_t>(seed));
    goodput.push_back(one.goodput());
    sum.lost += one.lost;
    sum.stalled += one.stalled;
    sum.down += one.down;
    sum.saves += one.saves;
    sum.failures += one.failures;
  }
  const MeanOf mean(goodput);
  const double all = options.days * 86400 * options.seeds;
  return {{"arm", arm.name},
          {"goodput", mean.mean},
          {"deviation", mean.deviation},
          {"lost", sum.lost / all},
          {"stalled", sum.stalled / all},
          {"down", sum.down / all},
          {"saves", sum.saves / options.seeds},
          {"failures", sum.failures / options.seeds}};
}

std::string TableOf(const Json& document) {
  std::string table;
  for (const Json& job : document["jobs"]) {
    table += fmt::format("\n{} hosts, a failure in {:.3g} h\n\n| goodput, % |",
                         job["hosts"].get<double>(), job["mtbf_seconds"].get<double>() / 3600);
    std::string rule = "|---|";
    for (const Json& cost : job["costs"]) {
      table += fmt::format(" {} |", cost["name"].get<std::string>());
      rule += "---:|";
    }
    table += "\n" + rule + "\n";
    const size_t arms = job["costs"][0]["arms"].size();
    for (size_t arm = 0; arm < arms; ++arm) {
      table += fmt::format("| {} |", job["costs"][0]["arms"][arm]["arm"].get<std::string>());
      for (const Json& cost : job["costs"]) {
        const Json& figures = cost["arms"][arm];
        table += fmt::format(" {:.1f} ± {:.1f} |", 100 * figures["goodput"].get<double>(),
                             100 * figures["deviation"].get<double>());
      }
      table += "\n";
    }
  }
  return table;
}

int Run(const Options& options) {
  Json document = {{"days", options.days},
                   {"per_thousand_host_days", options.failures.per_thousand_host_days},
                   {"shape", options.failures.shape},
                   {"announced_part", options.failures.announced_part},
                   {"rank_part", options.failures.rank_part},
                   {"seeds", options.seeds},
                   {"jobs", Json::array()}};
  for (const double hosts : options.hosts) {
    FailureOptions failures = options.failures;
    failures.hosts = hosts;
    Json job = {
        {"hosts", hosts}, {"mtbf_seconds", failures.MtbfSeconds()}, {"costs", Json::array()}};
    for (const SaveCost& cost : Costs()) {
      Json figures = {{"name", cost.name},
                      {"stall_seconds", cost.stall_seconds},
                      {"safe_seconds", cost.safe_seconds},
                      {"restart_seconds", cost.restart_seconds},
                      {"arms", Json::array()}};
      for (const Arm& arm : Arms()) {
        figures["arms"].push_back(FiguresOf(options, hosts, cost, arm));
      }
      job["costs"].push_back(std::move(figures));
    }
    document["jobs"].push_back(std::move(job));
  }
  std::fputs(options.json ? (document.dump(1) + "\n").c_str() : TableOf(document).c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(kDescription, "simulate_checkpoints");
  app.footer(kFooter);
  app.add_option("--hosts", options.hosts, "Numbers of hosts, each a job")
      ->check(CLI::Range(1, 1000000))
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--rate", options.failures.per_thousand_host_days,
                 "Failures of all kinds in a thousand host-days")
      ->check(CLI::Range(0.01, 10000.0))
      ->capture_default_str();
  app.add_option("--shape", options.failures.shape,
                 "Shape of the Weibull distribution of times between failures; 1 is exponential")
      ->check(CLI::Range(0.3, 5.0))
      ->capture_default_str();
  app.add_option("--announced", options.failures.announced_part,
                 "Part of the failures that is announced, half of it minutes before")
      ->check(CLI::Range(0.0, 0.8))
      ->capture_default_str();
  app.add_option("--days", options.days, "Days of a run")
      ->check(CLI::Range(1.0, 3650.0))
      ->capture_default_str();
  app.add_option("--step", options.step_seconds, "Seconds of a step, at whose end a job saves")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--seeds", options.seeds, "Runs of which the mean is told")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_flag("--json", options.json, "Print JSON, with where the time went");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return Run(options);
}
