// Fixed intervals between checkpoints against the daemon's advice, by simulation.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "daemon/checkpoint_advice/save_interval.h"
#include "perf/checkpoints/failure_trace.h"
#include "perf/checkpoints/saving_job.h"
#include "src/base/json_text.h"

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
  simulate_checkpoints --hosts 512 --shape 0.7 --announced 0 --json
  simulate_checkpoints --hosts 2 --mtbf 20 --seconds 3600 --stall 1 --safe 1 --restart 2 --every 2,6,25 \
    --step 0.1 --least 1 --known)";

struct Options {
  FailureOptions failures;
  std::vector<double> hosts = {8, 64, 512, 2048};
  double seconds = 28 * 86400.0;
  double mtbf_seconds = 0;                   ///< 0: by the number of hosts.
  std::vector<double> at_seconds = {};       ///< Of failures; none: they are drawn.
  std::optional<double> stall_seconds = {};  ///< nullopt: those of Costs.
  double safe_seconds = 0;
  double restart_seconds = 0;
  std::vector<double> every_seconds = {600, 1800, 3600, 3 * 3600};
  SavePolicy advice = {.kind = SavePolicy::Kind::kAdvice};
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

std::string IntervalText(double seconds) {
  if (seconds == 3600) return "every hour";
  if (seconds > 3600) return fmt::format("every {:.3g} h", seconds / 3600);
  if (seconds >= 60) return fmt::format("every {:.3g} min", seconds / 60);
  return fmt::format("every {:.3g} s", seconds);
}

std::vector<Arm> Arms(const Options& options) {
  std::vector<Arm> arms;
  for (const double seconds : options.every_seconds) {
    arms.push_back({IntervalText(seconds), {.interval_seconds = seconds}});
  }
  SavePolicy deaf = options.advice;
  deaf.hears_notices = false;
  arms.push_back({"Young, true rate", {}, true});
  arms.push_back({"advice, no notices", deaf});
  arms.push_back({"advice", options.advice});
  return arms;
}

std::vector<SaveCost> Costs(const Options& options) {
  using enum harmonaize::daemon::SavePlace;
  if (options.stall_seconds.has_value()) {
    const double safe = std::max(options.safe_seconds, *options.stall_seconds);
    return {{"stated", kPeer, *options.stall_seconds, safe, options.restart_seconds}};
  }
  return {{"torch.save", kStorage, 60, 60, 300},
          {"DCP, asynchronous", kStorage, 5, 60, 300},
          {"memory of a peer", kPeer, 0.5, 5, 60}};
}

/// Returns the options of failures for a number of hosts.
FailureOptions FailuresOf(const Options& options, double hosts) {
  FailureOptions failures = options.failures;
  failures.hosts = hosts;
  failures.seconds = options.seconds;
  if (options.mtbf_seconds > 0) {
    failures.per_thousand_host_days = 1000 * 86400.0 / (hosts * options.mtbf_seconds);
  }
  return failures;
}

std::vector<Failure> TraceOf(const Options& options, const FailureOptions& failures) {
  if (options.at_seconds.empty()) return MakeFailures(failures);
  std::vector<Failure> trace;
  for (const double at : options.at_seconds) trace.push_back({.at_seconds = at});
  return trace;
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
  FailureOptions failures = FailuresOf(options, hosts);
  failures.seed = seed;
  const std::vector<Failure> trace = TraceOf(options, failures);
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
  const double all = options.seconds * options.seeds;
  return {{"arm", arm.name},
          {"goodput", mean.mean},
          {"deviation", mean.deviation},
          {"lost", sum.lost / all},
          {"stalled", sum.stalled / all},
          {"down", sum.down / all},
          {"saves", sum.saves / options.seeds},
          {"failures", sum.failures / options.seeds}};
}

std::string TimeText(double seconds) {
  return seconds >= 3600 ? fmt::format("{:.3g} h", seconds / 3600)
                         : fmt::format("{:.3g} s", seconds);
}

std::string TableOf(const Json& document) {
  std::string table;
  for (const Json& job : document["jobs"]) {
    table += fmt::format("\n{} hosts, a failure in {}\n\n| goodput, % |",
                         job["hosts"].get<double>(), TimeText(job["mtbf_seconds"].get<double>()));
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
  Json document = {{"days", options.seconds / 86400},
                   {"per_thousand_host_days", FailuresOf(options, 1).per_thousand_host_days},
                   {"shape", options.failures.shape},
                   {"announced_part", options.failures.announced_part},
                   {"rank_part", options.failures.rank_part},
                   {"seeds", options.seeds},
                   {"jobs", Json::array()}};
  for (const double hosts : options.hosts) {
    const FailureOptions failures = FailuresOf(options, hosts);
    Json job = {
        {"hosts", hosts}, {"mtbf_seconds", failures.MtbfSeconds()}, {"costs", Json::array()}};
    for (const SaveCost& cost : Costs(options)) {
      Json figures = {{"name", cost.name},
                      {"stall_seconds", cost.stall_seconds},
                      {"safe_seconds", cost.safe_seconds},
                      {"restart_seconds", cost.restart_seconds},
                      {"arms", Json::array()}};
      for (const Arm& arm : Arms(options)) {
        figures["arms"].push_back(FiguresOf(options, hosts, cost, arm));
      }
      job["costs"].push_back(std::move(figures));
    }
    document["jobs"].push_back(std::move(job));
  }
  std::fputs(
      options.json ? (harmonaize::JsonText(document, 1) + "\n").c_str() : TableOf(document).c_str(),
      stdout);
  return 0;
}

/// Options with which a run of minutes is like one of weeks: what the laboratory's real runs are
/// compared with.
void AddAccelerated(CLI::App& app, Options& options) {
  const auto seconds = CLI::Range(0.0, 1e6);
  app.add_option("--mtbf", options.mtbf_seconds,
                 "Seconds between failures of the job, whatever its hosts and their rate")
      ->check(CLI::Range(1.0, 1e9));
  app.add_option("--at", options.at_seconds,
                 "Seconds at which the job fails, in place of random ones; no host is lost")
      ->check(seconds)
      ->delimiter(',');
  app.add_option("--rank-part", options.failures.rank_part,
                 "Part of the failures that is the job's own")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  CLI::Option* const stall =
      app.add_option("--stall", options.stall_seconds,
                     "Seconds for which a checkpoint stalls the job, in place of the three kinds")
          ->check(seconds);
  app.add_option("--safe", options.safe_seconds, "Seconds until a checkpoint is safe")
      ->check(seconds)
      ->needs(stall);
  app.add_option("--restart", options.restart_seconds, "Seconds from a failure to work")
      ->check(seconds)
      ->needs(stall);
  app.add_option("--every", options.every_seconds, "Fixed intervals, in seconds")
      ->check(CLI::Range(0.1, 1e6))
      ->delimiter(',');
  app.add_option("--least", options.advice.least_seconds,
                 "The provider's least_checkpoint_interval, in seconds")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  app.add_option("--delay", options.advice.delay_seconds,
                 "Seconds after which a job hears of advice")
      ->check(seconds)
      ->capture_default_str();
  app.add_flag(
      "--known", options.advice.knows_job,
      "The daemon knows how often hosts and ranks fail, and what a checkpoint takes; else it "
      "learns that");
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
  double days = 28;
  app.add_option("--days", days, "Days of a run")
      ->check(CLI::Range(1.0, 3650.0))
      ->capture_default_str();
  CLI::Option* const stated_seconds =
      app.add_option("--seconds", options.seconds, "Seconds of a run, in place of days")
          ->check(CLI::Range(1.0, 1e6));
  AddAccelerated(app, options);
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
  if (stated_seconds->empty()) options.seconds = days * 86400;
  return Run(options);
}
