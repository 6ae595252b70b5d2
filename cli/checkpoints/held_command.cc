#include "cli/checkpoints/held_command.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/checkpoints/held_table.h"
#include "cli/command_line.h"
#include "cli/daemon_http.h"
#include "cli/jobs/job_search.h"
#include "cli/json_view.h"
#include "src/base/wall_clock.h"
#include "src/ipc/http_client.h"

namespace harmonaize {
namespace {

constexpr char kHeldDescription[] = "List the checkpoints that daemons hold.";

constexpr char kHeldFooter[] =
    R"(What ranks have saved stays in their daemon's memory when they end, an hour or as long as the
provider says, and a later run of the job reads it from there. Without JOB, this host's memory is
listed, for all of your jobs. With JOB other hosts are asked, too, if the job has ranks here now. The
newest comes first.

  whole      all ranks have saved their parts: hzCheckpointOpen finds it
  parts lost all ranks had, and of some no part is known here any more; a job that has ranks at other
             hosts may find more
  not whole  ranks are saving it, or have given it up; or this host has not heard yet that all have
             saved
  stored     the provider's store has it, where there is one; that is told with JOB alone
  here       how many ranks' parts this host has in memory, and of how many bytes
  elsewhere  how many more other hosts have

A job that has ended minutes ago is found by its id, and by its name if it is yours. A folder that the
job saves to is shown by 'harmonaize checkpoints list FOLDER'.

Exit status: 0, also where there are none; 1 when no daemon answered, or there is no such job;
2 for wrong options.

Examples:
  harmonaize checkpoints held
  harmonaize checkpoints held llama
  harmonaize checkpoints held llama --json | jq '.checkpoints[0].step')";

struct HeldOptions {
  std::string socket;
  std::string job;
  bool json = false;
};

/// Asks for what is held of a job. Errors: kUnavailable if there is none that is meant.
Result<std::string> AskOfJob(const DaemonHttp& daemon, const std::string& which) {
  const Result<std::string> known = AskForJobId(daemon, which);
  if (!known.ok() && known.status().code() != Code::kUnavailable) return known.status();
  // The daemon may have forgotten the job, and still have its checkpoints.
  const std::string& job = known.ok() ? *known : which;
  Result<std::string> answer =
      CallDaemon(daemon, {.target = "/v1/jobs/" + EncodeForUrl(job) + "/checkpoints"});
  if (answer.ok() || known.ok()) return answer;
  return Unavailable("{}, and `harmonaize checkpoints held` what is held",
                     known.status().message());
}

Result<std::string> Show(const HeldOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const std::string answer,
                      options.job.empty() ? CallDaemon(daemon, {.target = "/v1/checkpoints"})
                                          : AskOfJob(daemon, options.job));
  return options.json ? IndentJson(answer) : HeldCheckpointsTable(answer, UnixSeconds());
}

}  // namespace

void AddHeldCheckpoints(CLI::App& checkpoints, CommandLine& command_line) {
  CLI::App* const command = checkpoints.add_subcommand("held", kHeldDescription);
  auto options = std::make_shared<HeldOptions>();
  command->footer(kHeldFooter);
  command
      ->add_option("JOB", options->job,
                   "Its name, its id, or the beginning of its id; without it all of yours")
      ->type_name("");
  command->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(command, &options->socket);
  command->callback([options, &command_line] { command_line.exit_status = Print(Show(*options)); });
}

}  // namespace harmonaize
