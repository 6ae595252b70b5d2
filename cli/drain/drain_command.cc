#include "cli/drain/drain_command.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "cli/daemon_http.h"
#include "cli/drain/drain_view.h"
#include "cli/drain/drain_wait.h"
#include "cli/json_view.h"
#include "cli/maintenance/time_words.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

constexpr char kDescription[] =
    "Empty this host of jobs without ending those that end in time, and restart its daemon.";

constexpr char kFooter[] =
    R"(A daemon that drains takes no new programs: their first communicator is refused, with the reason.
Programs that have one go on, and are told as an event by when they should be done. The daemon is
drained once no communicator is left, or the time of --within is over; without --within it waits for
as long as jobs take. /readyz answers 503 'draining' meanwhile. A drain lasts until --cancel, over
restarts of the daemon; with --restart it ends with the restart.

With --restart the daemon restarts once it is drained. It runs the program file that is there then,
so install a new version before. Programs without communicators connect to the new daemon when they
need it. Communicators that are left when the time is over end with an error.

Jobs may acknowledge, or ask for more time: --show and --wait show that. The drain waits on for their
communicators until they leave or the time is over; '--within 0s' ends the waiting.

With --wait, what is waited for is shown on standard error; Ctrl-C ends the waiting, not the drain.
--show begins nothing. A drain that is begun again keeps the time, reason and wish to restart that are
not named; '--within none' and --no-restart take them back.

Exit status: 0; 1 when no daemon answered, this user is no operator, or the daemon refused; 2 for
wrong options; 124 when --wait has seen the time pass and communicators were left, also where the
daemon then restarted.

Examples:
  harmonaize drain --wait
  harmonaize drain --wait --restart --within 10min --reason 'version 1.2'
  harmonaize drain --show --json | jq .jobs
  harmonaize drain --cancel)";

constexpr char kTarget[] = "/v1/hosts/this/drain";

/// The word of --within for a drain that waits for as long as jobs take.
constexpr char kNoLimit[] = "none";

struct DrainOptions {
  std::string socket;
  std::string within;
  std::string reason;
  bool restart = false;
  bool no_restart = false;
  bool wait = false;
  bool cancel = false;
  bool show = false;
  bool json = false;
};

Result<std::string> Shown(const std::string& document, bool json) {
  if (json) return IndentJson(document);
  HZ_ASSIGN_OR_RETURN(const Json drain, ParseDocument(document));
  return DrainText(drain);
}

Result<std::string> Begin(const DaemonHttp& daemon, const DrainOptions& options) {
  Json order = Json::object();
  if (options.restart || options.no_restart) order["restart"] = options.restart;
  if (!options.reason.empty()) order["reason"] = options.reason;
  if (options.within == kNoLimit) {
    order["within_seconds"] = nullptr;
  } else if (!options.within.empty()) {
    HZ_ASSIGN_OR_RETURN(order["within_seconds"], SecondsInWord(options.within));
  }
  const std::string body = JsonText(order);
  return CallDaemon(daemon, {.method = "POST", .target = kTarget, .body = body});
}

Result<std::string> Drain(const DrainOptions& options, int* exit_status) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindOperatorsHttp(options.socket));
  if (options.cancel || options.show) {
    const std::string method = options.cancel ? "DELETE" : "GET";
    HZ_ASSIGN_OR_RETURN(const std::string answer,
                        CallDaemon(daemon, {.method = method, .target = kTarget}));
    return Shown(answer, options.json);
  }
  HZ_ASSIGN_OR_RETURN(const std::string begun, Begin(daemon, options));
  if (!options.wait) return Shown(begun, options.json);
  HZ_ASSIGN_OR_RETURN(const DrainOutcome outcome, AwaitDrain(daemon, options.socket));
  if (!outcome.all_left) *exit_status = kTimeoutStatus;
  if (!options.json) return outcome.text;
  HZ_ASSIGN_OR_RETURN(const DaemonHttp now, FindOperatorsHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const std::string answer, CallDaemon(now, {.target = kTarget}));
  return IndentJson(answer);
}

int Run(const DrainOptions& options) {
  int exit_status = 0;
  const int printed = Print(Drain(options, &exit_status));
  return printed != 0 ? printed : exit_status;
}

std::string CheckWithin(const std::string& word) {
  return word == kNoLimit ? std::string() : CheckSecondsWord(word);
}

}  // namespace

void AddDrainCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* drain = app.add_subcommand("drain", kDescription);
  auto options = std::make_shared<DrainOptions>();
  drain->footer(kFooter);
  CLI::Option* const cancel =
      drain->add_flag("--cancel", options->cancel, "Take new programs again");
  CLI::Option* const show =
      drain->add_flag("--show", options->show, "Only show whether it drains, and what it waits for")
          ->excludes(cancel);
  const auto begins = [&](CLI::Option* option) { option->excludes(cancel)->excludes(show); };
  begins(drain->add_flag("--wait", options->wait, "Wait until it is drained, or has restarted"));
  CLI::Option* const restart =
      drain->add_flag("--restart", options->restart, "Restart the daemon then");
  begins(restart);
  begins(drain->add_flag("--no-restart", options->no_restart, "Do not restart it after all")
             ->excludes(restart));
  begins(drain
             ->add_option("--within", options->within,
                          "Wait for jobs no longer, such as 10min; or 'none'")
             ->check(CLI::Validator(CheckWithin, ""))
             ->type_name("TIME"));
  begins(drain->add_option("--reason", options->reason, "What for; operators see it")
             ->type_name("TEXT"));
  drain->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(drain, &options->socket);
  drain->callback([options, &command_line] { command_line.exit_status = Run(*options); });
}

}  // namespace harmonaize
