#include "cli/checkpoints/advice_command.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/checkpoints/advice_table.h"
#include "cli/command_line.h"
#include "cli/daemon_http.h"
#include "cli/jobs/job_search.h"
#include "cli/json_view.h"
#include "src/ipc/http_client.h"

namespace harmonaize {
namespace {

constexpr char kAdviceDescription[] = "Show when a job should save, and from what that follows.";

constexpr char kAdviceFooter[] =
    R"(The daemon advises a job that has stated something in [checkpoint], or has reported a checkpoint, by
the event checkpoint.advised. Here is what it would say now. docs/checkpoint-advice.md says how it is
reckoned.

  moments   when to begin a checkpoint, the soonest first
  interval  the time between checkpoints that nobody asks for, and what bounds it
  hazard    failures of the whole job in a day, by what fails: the mean, and 10%, 50% and 90% quantiles

Exit status: 0; 1 when no daemon answered, or it refused; 2 for wrong options.

Examples:
  harmonaize checkpoints advice
  harmonaize checkpoints advice llama
  harmonaize checkpoints advice llama --json | jq '.moments[0]')";

constexpr char kSaveDescription[] = "Advise a job to save now.";

constexpr char kSaveFooter[] =
    R"(All hosts of the job hear checkpoint.advised, with 'request' as the reason. The job decides what it
does. Operators may ask any job.

Exit status: 0; 1 when no daemon answered, or it refused; 2 for wrong options.

Example:
  harmonaize checkpoints save llama)";

struct AdviceOptions {
  std::string socket;
  std::string job;
  bool json = false;
};

/// Returns the id of the job that is meant; "": the only one that runs here.
Result<std::string> MeantJob(const DaemonHttp& daemon, const std::string& which) {
  if (!which.empty()) return AskForJobId(daemon, which);
  HZ_ASSIGN_OR_RETURN(const Json document, GetDocument(daemon, "/v1/jobs"));
  std::string id;
  size_t running = 0;
  for (const Json& job : ListAt(document, "jobs")) {
    if (!At(job, "ended").is_null()) continue;
    id = TextAt(job, "id");
    ++running;
  }
  if (running == 1) return id;
  if (running == 0)
    return InvalidUsage(
        "no job runs on this host, so there is no advice: 'harmonaize jobs' lists jobs");
  return InvalidUsage("{} jobs run here; say which one is meant: 'harmonaize jobs' lists them",
                      running);
}

Result<std::string> ShowAdvice(const AdviceOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const std::string job, MeantJob(daemon, options.job));
  HZ_ASSIGN_OR_RETURN(
      const std::string answer,
      CallDaemon(daemon, {.target = "/v1/jobs/" + EncodeForUrl(job) + "/checkpoints/advice"}));
  return options.json ? IndentJson(answer) : CheckpointAdviceTable(answer);
}

Result<std::string> SaveNow(const AdviceOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const std::string job, MeantJob(daemon, options.job));
  HZ_ASSIGN_OR_RETURN(
      const std::string answer,
      CallDaemon(daemon, {.method = "POST",
                          .target = "/v1/jobs/" + EncodeForUrl(job) + "/checkpoints",
                          .body = "{}"}));
  if (options.json) return IndentJson(answer);
  HZ_ASSIGN_OR_RETURN(const Json moment, ParseDocument(answer));
  return TextAt(moment, "text") + "\n";
}

using Action = Result<std::string> (*)(const AdviceOptions& options);

void AddJobCommand(CLI::App& checkpoints, CommandLine& command_line, const char* name,
                   const char* description, const char* footer, Action action) {
  CLI::App* const command = checkpoints.add_subcommand(name, description);
  auto options = std::make_shared<AdviceOptions>();
  command->footer(footer);
  command
      ->add_option("JOB", options->job,
                   "Its name, its id, or the beginning of its id; without it the only job here")
      ->type_name("");
  command->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(command, &options->socket);
  command->callback(
      [options, action, &command_line] { command_line.exit_status = Print(action(*options)); });
}

}  // namespace

void AddCheckpointAdvice(CLI::App& checkpoints, CommandLine& command_line) {
  AddJobCommand(checkpoints, command_line, "advice", kAdviceDescription, kAdviceFooter,
                &ShowAdvice);
}

void AddCheckpointSave(CLI::App& checkpoints, CommandLine& command_line) {
  AddJobCommand(checkpoints, command_line, "save", kSaveDescription, kSaveFooter, &SaveNow);
}

}  // namespace harmonaize
