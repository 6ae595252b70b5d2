#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/agents/agents_command.h"
#include "cli/checkpoints/checkpoints_command.h"
#include "cli/command_line.h"
#include "cli/completion/completion_command.h"
#include "cli/dashboard/dashboard_command.h"
#include "cli/drain/drain_command.h"
#include "cli/elasticity/elasticity_command.h"
#include "cli/events/events_command.h"
#include "cli/explain/explain_command.h"
#include "cli/jobs/jobs_command.h"
#include "cli/maintenance/maintenance_command.h"
#include "cli/manual/manual_command.h"
#include "cli/offers/offers_command.h"
#include "cli/plan/plan_command.h"
#include "cli/probe/probe_command.h"
#include "cli/profile/profile_command.h"
#include "cli/promises/promises_command.h"
#include "cli/requirements/requirements_command.h"
#include "cli/run/run_command.h"
#include "cli/status/status_command.h"
#include "cli/ticket/ticket_command.h"
#include "cli/token/token_command.h"
#include "cli/top/top_command.h"
#include "cli/usage_problem.h"

namespace {

constexpr char kDescription[] =
    "harmonaize: run programs whose NCCL collectives the host's daemon executes, and look at what "
    "the daemon is doing, and why.";

constexpr char kFooter[] =
    "Examples:\n"
    "  harmonaize run -n 4 -- all_reduce_perf -b 8 -e 16M -f 4 -c 1\n"
    "  harmonaize status\n"
    "  harmonaize top\n"
    "  harmonaize jobs\n"
    "  harmonaize events --follow\n"
    "  harmonaize status --stuck\n"
    "  harmonaize dashboard\n"
    "  harmonaize ticket make llama --file llama.ticket\n"
    "  harmonaize offers\n"
    "  harmonaize agents\n"
    "  harmonaize checkpoints advice llama\n"
    "  harmonaize drain --wait --restart --within 10min\n"
    "  harmonaize checkpoints list /data/llama\n"
    "  harmonaize explain --ranks 4 --collective AllReduce\n"
    "  harmonaize profile llama\n"
    "  harmonaize requirements job.toml --explain\n"
    "  harmonaize plan --fabric fabric.toml --size 64M\n"
    "  harmonaize probe 10.0.0.1 10.0.0.2 -o fabric.toml\n"
    "\n"
    "'harmonaize COMMAND --help' says more of each command.";

}  // namespace

int main(int argc, char** argv) {
  harmonaize::OpenStandardStreams();
  CLI::App app(kDescription, "harmonaize");
  app.footer(kFooter);
  app.set_version_flag("--version", "harmonaize " HARMONAIZE_VERSION);
  app.require_subcommand(1);

  harmonaize::CommandLine command_line;
  const std::vector<std::string> head = harmonaize::SplitAtDashes(argc, argv, &command_line);
  harmonaize::AddRunCommand(app, command_line);
  harmonaize::AddStatusCommand(app, command_line);
  harmonaize::AddTopCommand(app, command_line);
  harmonaize::AddJobsCommand(app, command_line);
  harmonaize::AddEventsCommand(app, command_line);
  harmonaize::AddDashboardCommand(app, command_line);
  harmonaize::AddExplainCommand(app, command_line);
  harmonaize::AddProfileCommand(app, command_line);
  harmonaize::AddPlanCommand(app, command_line);
  harmonaize::AddProbeCommand(app, command_line);
  harmonaize::AddMaintenanceCommand(app, command_line);
  harmonaize::AddDrainCommand(app, command_line);
  harmonaize::AddOffersCommand(app, command_line);
  harmonaize::AddOfferCommand(app, command_line);
  harmonaize::AddAgentsCommand(app, command_line);
  harmonaize::AddElasticityCommand(app, command_line);
  harmonaize::AddCheckpointsCommand(app, command_line);
  harmonaize::AddPromisesCommand(app, command_line);
  harmonaize::AddRequirementsCommand(app, command_line);
  harmonaize::AddTicketCommand(app, command_line);
  harmonaize::AddTokenCommand(app, command_line);
  harmonaize::AddCompletionCommand(app, command_line);
  harmonaize::AddManualCommand(app, command_line);

  try {
    // CLI11 takes its arguments from the back.
    app.parse(std::vector<std::string>(head.rbegin(), head.rend()));
  } catch (const CLI::ParseError& error) {
    // The texts of --help and --version come by this way, too.
    if (error.get_exit_code() == 0) return app.exit(error);
    harmonaize::Complain(harmonaize::UsageProblem(app, head, error));
    return harmonaize::kUsageStatus;
  }
  return command_line.exit_status;
}
