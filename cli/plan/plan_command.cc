#include "cli/plan/plan_command.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/human_units.h"
#include "cli/plan/plan_report.h"
#include "cli/plan/plan_setup.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize {
namespace {

constexpr char kPlanDescription[] =
    "Plan a collective on a fabric file, without a cluster: candidates, predicted times, the "
    "choice.";

constexpr char kPlanFooter[] =
    R"(For each size, all algorithms are laid on the fabric's links in the host orders, groups by rack, slices
and uses of paths that suit them, and the one with the least predicted time is the plan. Beside it
stands the bound: what has to cross the fabric's narrowest cut, by what can. (Of an all-reduce as a
reduce-scatter and an all-gather.) docs/planning.md has the formulae.

Policies:
  adaptive     the least predicted time
  static-ring  a ring in the order of the ranks on whatever ways ECMP gives, as NCCL has it
  fixed        what --plan-file says:
                 [plan]
                 algorithm = "ring"
                 order = ["host0", "host2", "host1", "host3"]
                 pieces = 2
                 paths = "weighted"        # or "even", "ecmp"

Exit status: 0; 1 when it cannot be planned; 2 for wrong options.

Examples:
  harmonaize plan --fabric two-racks.toml
  harmonaize plan --fabric two-racks.toml --hosts host0,host2,host1,host3 --size 64M --policy static-ring
  harmonaize plan --fabric two-racks.toml --link-rate leaf0-spine1=100Mbit --size 64M
  harmonaize plan --fabric two-racks.toml --size 64M --compression bf16 --error-bound 0.02
  harmonaize plan --fabric two-racks.toml --collective AllGather --size 1M --show-steps
  harmonaize plan --fabric big.toml --ranks-per-host 8 --json | jq '.sizes[].plans[0].algorithm')";

// Most ranks whose steps are shown. The steps of more ranks are too many to read, and may not fit
// into memory.
constexpr int kMostShownRanks = 128;

struct PlanOptions {
  PlanRequest request;
  bool json = false;
  bool all = false;
  bool show_steps = false;
  std::vector<std::string> compression = {};
};

Result<std::string> StepsOf(const PlanSetup& setup, const PlannedSize& size) {
  if (setup.planner->problem().host_of_rank.size() > kMostShownRanks) {
    return InvalidArgument("--show-steps shows schedules of {} ranks at most", kMostShownRanks);
  }
  HZ_ASSIGN_OR_RETURN(const auto outline, setup.planner->OutlineOf(size.plans[0]));
  return fmt::format("\n{}: {}", HumanBytes(size.bytes), Describe(outline->Write()));
}

PlanRequest RequestOf(const PlanOptions& options) {
  PlanRequest request = options.request;
  for (const std::string& name : options.compression) {
    if (name == WireFormatName(WireFormat::kBf16)) request.wire.bf16 = true;
    if (name == WireFormatName(WireFormat::kFp8)) request.wire.fp8 = true;
  }
  return request;
}

Result<std::string> Plan(const PlanOptions& options) {
  HZ_ASSIGN_OR_RETURN(const PlanSetup setup, SetUpPlan(RequestOf(options)));
  PlanReport report{.model = setup.model.get(),
                    .planner = setup.planner.get(),
                    .options = setup.options,
                    .sizes = {}};
  if (options.all) report.most_plans = std::numeric_limits<size_t>::max();
  for (const uint64_t bytes : setup.sizes) {
    report.sizes.push_back(setup.planner->PlanFor(bytes));
  }
  if (options.json) return PlanJson(report);
  std::string text = PlanTable(report);
  for (size_t i = 0; options.show_steps && i < report.sizes.size(); ++i) {
    const Result<std::string> steps = StepsOf(setup, report.sizes[i]);
    if (!steps.ok()) return steps;
    text += *steps;
  }
  return text;
}

}  // namespace

void AddPlanCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* plan = app.add_subcommand("plan", kPlanDescription);
  auto options = std::make_shared<PlanOptions>();
  plan->footer(kPlanFooter);
  AddPlanOptions(*plan, &options->request);
  plan->add_option("--compression", options->compression,
                   "Formats that sums of floats may have between hosts: bf16, fp8")
      ->delimiter(',')
      ->check(CLI::IsMember({"bf16", "fp8"}));
  plan->add_option("--error-bound", options->request.wire.error_bound,
                   "Largest error that a format may bring, by the sum of magnitudes")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  plan->add_flag("--all", options->all, "Show all candidates");
  CLI::Option* json = plan->add_flag("--json", options->json, "Print everything as JSON");
  plan->add_flag("--show-steps", options->show_steps, "Print the steps of each choice")
      ->excludes(json);
  plan->callback([options, &command_line] { command_line.exit_status = Print(Plan(*options)); });
}

}  // namespace harmonaize
