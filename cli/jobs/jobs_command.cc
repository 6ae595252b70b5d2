#include "cli/jobs/jobs_command.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/daemon_http.h"
#include "cli/jobs/job_search.h"
#include "cli/jobs/job_tables.h"
#include "cli/json_view.h"

namespace harmonaize {
namespace {

constexpr char kJobsDescription[] =
    "Show the jobs that have ranks on this host; or one job, its communicators, and what waits.";

constexpr char kJobsFooter[] =
    R"(A job is what a user runs under one name ('harmonaize run --name', or HARMONAIZE_JOB); without a name
it is the processes that one launcher started, or else what comes from one NCCL unique id. Two runs
under one name are one job, at the same time or one after the other. A job is shown from the moment
when its first rank waits in ncclCommInitRank: which communicators form, and which ranks have not
come, at the host that made the unique id. A job that has ended is shown for ten minutes. A tenant sees its own jobs; operators see all, and the processes.

Operations and bytes are those of communicators that have ended, too. The ranks are those of the
largest communicator. The number in "AllReduce #7" counts what the daemon carried out or took over in
the communicator, from 0 on: it is lower than opCount in NCCL's log where ranks carried out
operations among themselves (inline).

JOB is the name of a job, its id, or the beginning of the id. Where jobs of several users have the
name, an operator says which by the id.

Exit status: 0; 1 when no daemon answered, or there is no such job; 2 for wrong options.

Examples:
  harmonaize jobs
  harmonaize jobs llama
  harmonaize jobs 3f9a01c2
  harmonaize jobs --json | jq -r '.jobs[].id')";

struct JobsOptions {
  std::string socket;
  std::string job;
  bool json = false;
};

Result<std::string> Jobs(const JobsOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(options.socket));
  std::string target = "/v1/jobs";
  if (!options.job.empty()) {
    HZ_ASSIGN_OR_RETURN(const std::string id, AskForJobId(daemon, options.job));
    target += "/" + EncodeForUrl(id);
  }
  HZ_ASSIGN_OR_RETURN(const std::string document, CallDaemon(daemon, {.target = target}));
  if (options.json) return IndentJson(document);
  return options.job.empty() ? JobTable(document) : JobDetails(document);
}

}  // namespace

void AddJobsCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* jobs = app.add_subcommand("jobs", kJobsDescription);
  auto options = std::make_shared<JobsOptions>();
  jobs->footer(kJobsFooter);
  jobs->add_option("JOB", options->job, "A job's name, its id, or the beginning of the id")
      ->type_name("");
  jobs->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(jobs, &options->socket);
  jobs->callback([options, &command_line] { command_line.exit_status = Print(Jobs(*options)); });
}

}  // namespace harmonaize
