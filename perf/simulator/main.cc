#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/human_units.h"
#include "cli/plan/plan_report.h"
#include "cli/plan/plan_setup.h"
#include "cli/text_table.h"
#include "perf/simulator/simulation.h"
#include "src/base/json_text.h"

namespace {

using namespace harmonaize;
using harmonaize::simulator::Simulated;
using harmonaize::simulator::SimulationOptions;
using Json = nlohmann::ordered_json;

constexpr char kDescription[] =
    "simulate: carry plans out on a fabric file, flow by flow, and compare with what was "
    "predicted.";

constexpr char kFooter[] =
    R"(Connections share links max-min fairly; steps wait for each other as in the schedule; where no explicit
path is taken, a hash of the connection gives it its way. Such plans are simulated for --draws hashes,
and the table has the mean. docs/planning.md says what is left out.

Examples:
  simulate --fabric two-racks.toml --hosts host0,host2,host1,host3 --size 64M
  simulate --fabric two-racks.toml --hosts host0,host2,host1,host3 --size 64M --policy static-ring
  simulate --fabric fat-tree-1024.toml --ranks-per-host 8 --size 64M --top 3)";

struct Options {
  PlanRequest request;
  int draws = 16;
  int top = 1;
  bool json = false;
};

/// Returns the mean over hashes.
Result<double> MeanSeconds(const PlanSetup& setup, const RankedPlan& plan, uint64_t bytes,
                           int draws) {
  const Candidate& candidate = setup.planner->candidates()[plan.candidate];
  HZ_ASSIGN_OR_RETURN(const auto outline, setup.planner->OutlineInPieces(plan));
  // One draw of the model means that nothing was left to hashes.
  const bool hashed = candidate.footprint.draws.size() > 1;
  double sum = 0;
  const int runs = hashed ? draws : 1;
  for (int draw = 0; draw < runs; ++draw) {
    SimulationOptions options{.draw = static_cast<uint64_t>(draw), .costs = setup.options.costs};
    HZ_ASSIGN_OR_RETURN(const Simulated simulated,
                        Simulate(*setup.model, candidate, *outline, bytes, options));
    sum += simulated.seconds;
  }
  return sum / runs;
}

Result<std::string> Report(const Options& options) {
  HZ_ASSIGN_OR_RETURN(const PlanSetup setup, SetUpPlan(options.request));
  TextTable table({"bytes", "plan", "predicted", "simulated", "predicted by simulated", "bound",
                   "simulated of bound"},
                  2);
  Json rows = Json::array();
  for (const uint64_t bytes : setup.sizes) {
    const PlannedSize size = setup.planner->PlanFor(bytes);
    const size_t shown = std::min(size.plans.size(), static_cast<size_t>(options.top));
    for (size_t i = 0; i < shown; ++i) {
      HZ_ASSIGN_OR_RETURN(const double seconds,
                          MeanSeconds(setup, size.plans[i], bytes, options.draws));
      const double predicted = size.plans[i].prediction.seconds;
      const std::string plan = DescribePlan(*setup.planner, size.plans[i]);
      table.Add({HumanBytes(bytes), plan, HumanTime(predicted), HumanTime(seconds),
                 fmt::format("{:.3f}", predicted / seconds), HumanTime(size.bound_seconds),
                 fmt::format("{:.1f}%", 100 * size.bound_seconds / seconds)});
      rows.push_back({{"bytes", bytes},
                      {"plan", plan},
                      {"predicted_seconds", predicted},
                      {"simulated_seconds", seconds},
                      {"bound_seconds", size.bound_seconds}});
    }
  }
  if (options.json) return JsonText(rows, 2) + "\n";
  std::string text;
  table.Print(&text);
  return text;
}

int Show(const Options& options) {
  const Result<std::string> text = Report(options);
  if (!text.ok()) {
    std::fprintf(stderr, "simulate: %s\n", text.status().message().c_str());
    return 1;
  }
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(kDescription, "simulate");
  app.footer(kFooter);
  Options options;
  AddPlanOptions(app, &options.request);
  app.add_option("--draws", options.draws, "Hashes to simulate, where routers choose")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--top", options.top, "Plans of each size, the best first")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--json", options.json, "Print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageStatus;
  }
  return Show(options);
}
