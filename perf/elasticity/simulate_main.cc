// Static sizes against elastic jobs under the daemon's policy of offers, by simulation.

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "perf/elasticity/cluster.h"
#include "perf/elasticity/figures.h"
#include "perf/elasticity/trace.h"
#include "src/base/json_text.h"

namespace {

using namespace harmonaize::elasticity;
using Json = nlohmann::ordered_json;

constexpr char kDescription[] =
    "simulate_elastic: how long jobs take whose sizes are static, and whose sizes follow offers.";

constexpr char kFooter[] =
    R"(Jobs come and run by the published statistics of a public trace. What they are drawn by, and what the
simulation leaves out, is in docs/elasticity.md. Each figure is the mean over the seeds; the arms of a
seed have the same jobs.

Examples:
  simulate_elastic
  simulate_elastic --pattern pai --seeds 10 --pause 20 --json
  simulate_elastic --load 1.2 --jobs 1000)";

struct Options {
  TraceOptions trace;
  ClusterOptions cluster;
  std::string pattern = "helios";
  int seeds = 5;
  bool json = false;
};

/// One way to run the trace.
struct Arm {
  std::string name;
  double elastic_part = 0;
  bool backfills = true;
  bool begins_smaller = false;
  bool makes_offers = false;
};

std::vector<Arm> Arms() {
  return {{"static, first come first served", 0, false, false, false},
          {"static, backfilled", 0, true, false, false},
          {"100% begin smaller, no offers", 1, true, true, false},
          {"100% begin as asked, offers", 1, true, false, true},
          {"25% elastic, offers", 0.25, true, true, true},
          {"50% elastic, offers", 0.5, true, true, true},
          {"100% elastic, offers", 1, true, true, true}};
}

Figures RunOnce(const Options& options, const Arm& arm, uint64_t seed) {
  TraceOptions trace = options.trace;
  trace.places = options.cluster.hosts * options.cluster.places_per_host;
  trace.elastic_part = arm.elastic_part;
  trace.seed = seed;
  ClusterOptions cluster = options.cluster;
  cluster.backfills = arm.backfills;
  cluster.begins_smaller = arm.begins_smaller;
  cluster.makes_offers = arm.makes_offers;
  cluster.seed = seed;
  const std::vector<TraceJob> jobs = MakeTrace(trace);
  return FiguresOf(Cluster(jobs, cluster).Run());
}

Json JsonOf(const Figures& figures) {
  return {{"mean_seconds", figures.mean_seconds},
          {"median_seconds", figures.median_seconds},
          {"p99_seconds", figures.p99_seconds},
          {"mean_wait_seconds", figures.mean_wait_seconds},
          {"makespan_seconds", figures.makespan_seconds},
          {"use", figures.use},
          {"rank_seconds", figures.rank_seconds},
          {"changes", figures.changes},
          {"offers", figures.offers},
          {"declined", figures.declined}};
}

/// Returns the mean of each figure.
Json MeanOf(const std::vector<Json>& runs) {
  Json mean = runs.front();
  for (auto& [key, value] : mean.items()) {
    double sum = 0;
    for (const Json& run : runs) sum += run[key].get<double>();
    value = sum / static_cast<double>(runs.size());
  }
  return mean;
}

std::string Row(const std::string& name, const Json& mean, const Json& base) {
  const auto of = [&](const char* key) { return mean[key].get<double>(); };
  return fmt::format(
      "| {} | {:.0f} ({:.2f}) | {:.0f} | {:.0f} | {:.0f} | {:.1f} | {:.1f}% | {:.0f} | {:.0f} |\n",
      name, of("mean_seconds"), of("mean_seconds") / base["mean_seconds"].get<double>(),
      of("median_seconds"), of("p99_seconds"), of("mean_wait_seconds"),
      of("makespan_seconds") / 3600, 100 * of("use"), of("rank_seconds") / 3600, of("changes"));
}

int Run(const Options& options) {
  std::string table =
      "| jobs | mean time, s (of backfilled) | median, s | p99, s | mean wait, s | makespan, h | "
      "use | rank-hours | changes |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  Json document = {{"pattern", options.pattern},
                   {"jobs", options.trace.jobs},
                   {"load", options.trace.load},
                   {"hosts", options.cluster.hosts},
                   {"places_per_host", options.cluster.places_per_host},
                   {"pause_seconds", options.cluster.pause_seconds},
                   {"seeds", options.seeds},
                   {"arms", Json::array()}};
  std::vector<Json> means;
  for (const Arm& arm : Arms()) {
    std::vector<Json> runs;
    for (int seed = 1; seed <= options.seeds; ++seed) {
      runs.push_back(JsonOf(RunOnce(options, arm, static_cast<uint64_t>(seed))));
    }
    means.push_back(MeanOf(runs));
    document["arms"].push_back({{"name", arm.name}, {"mean", means.back()}, {"runs", runs}});
  }
  const std::vector<Arm> arms = Arms();
  for (size_t i = 0; i < arms.size(); ++i) table += Row(arms[i].name, means[i], means[1]);
  std::fputs(options.json ? (harmonaize::JsonText(document, 1) + "\n").c_str() : table.c_str(),
             stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(kDescription, "simulate_elastic");
  app.footer(kFooter);
  app.add_option("--pattern", options.pattern, "Trace whose statistics jobs have")
      ->check(CLI::IsMember({"helios", "pai", "philly"}))
      ->capture_default_str();
  app.add_option("--jobs", options.trace.jobs, "Jobs of a trace")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--load", options.trace.load, "Part of the places that static jobs would fill")
      ->check(CLI::Range(0.01, 10.0))
      ->capture_default_str();
  app.add_option("--hosts", options.cluster.hosts, "Hosts of the cluster")
      ->check(CLI::Range(4, 4096))
      ->capture_default_str();
  app.add_option("--places", options.cluster.places_per_host, "Places of a host")
      ->check(CLI::Range(8, 512))
      ->capture_default_str();
  app.add_option("--pause", options.cluster.pause_seconds,
                 "Seconds that a job stands still for a change, besides sending its state")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--declining", options.cluster.tenants.declining,
                 "Part of the offers that is declined")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--late", options.cluster.tenants.late,
                 "Part of the offers that is answered after minutes")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--seeds", options.seeds, "Traces of which the mean is told")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--json", options.json, "Print JSON, with each run");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  options.trace.pattern = *PatternNamed(options.pattern);
  return Run(options);
}
