#include "cli/profile/profile_command.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "cli/daemon_http.h"
#include "cli/jobs/job_search.h"
#include "cli/json_view.h"
#include "cli/profile/profile_table.h"

namespace harmonaize {
namespace {

constexpr char kProfileDescription[] =
    "Show what NCCL itself tells of a job's collectives, by its profiler plugin.";

constexpr char kProfileFooter[] =
    R"(For jobs whose collectives stock NCCL (2.23 or later) carries out. They tell of them where they run with

  export NCCL_PROFILER_PLUGIN=harmonaize

and LD_LIBRARY_PATH has Harmonaize's folder lib/nccl-plugins. Without JOB: the jobs that tell.
With JOB: for each of its NCCL communicators a row for each kind of event, function, algorithm and
protocol: how many, their bytes, and how long they took: together, on average and at most. All numbers
are those of the job's processes on this host, from their start on, and nobody checks them.

Timed: 'gpu' is the time from the first kernel's beginning to the last one's end; 'host' is the time
that the calls on the host took, which launch an operation and do not wait for it.
Kinds: 'group' and 'collective', 'p2p': operations as NCCL launches them; 'kernel': their work on a GPU
by channels; 'proxy_send', 'proxy_recv': network transfers by channels. Their bytes are at most so many.
The provider may have chosen others ('[profiler] events' in the daemon's configuration).
Lost: events of which the processes could not tell, because they were too many at once.

JOB is the name of a job, its id, or the beginning of the id. A tenant sees its own jobs; operators see
all. What an ended job has told is kept for ten minutes.

Exit status: 0; 1 when no daemon answered, or there is no such job; 2 for wrong options.

Examples:
  harmonaize profile
  harmonaize profile llama
  harmonaize profile llama --json | jq '.communicators[].rows[] | select(.kind == "collective")')";

struct ProfileOptions {
  std::string socket;
  std::string job;
  bool json = false;
};

Result<std::string> Profile(const ProfileOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(options.socket));
  std::string target = "/v1/profiles";
  if (!options.job.empty()) {
    HZ_ASSIGN_OR_RETURN(const std::string id, AskForJobId(daemon, options.job));
    target = "/v1/jobs/" + EncodeForUrl(id) + "/profile";
  }
  HZ_ASSIGN_OR_RETURN(const std::string document, CallDaemon(daemon, {.target = target}));
  if (options.json) return IndentJson(document);
  return options.job.empty() ? ProfileList(document) : ProfileTable(document);
}

}  // namespace

void AddProfileCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* profile = app.add_subcommand("profile", kProfileDescription);
  auto options = std::make_shared<ProfileOptions>();
  profile->footer(kProfileFooter);
  profile->add_option("JOB", options->job, "A job's name, its id, or the beginning of the id")
      ->type_name("");
  profile->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(profile, &options->socket);
  profile->callback(
      [options, &command_line] { command_line.exit_status = Print(Profile(*options)); });
}

}  // namespace harmonaize
