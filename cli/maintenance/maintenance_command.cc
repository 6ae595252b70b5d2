#include "cli/maintenance/maintenance_command.h"

#include <cmath>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "cli/daemon_http.h"
#include "cli/json_view.h"
#include "cli/maintenance/maintenance_table.h"
#include "cli/maintenance/time_words.h"

namespace harmonaize {
namespace {

constexpr char kDescription[] =
    "Announce maintenance of this host to the jobs on it, and see which of them are ready.";

constexpr char kFooter[] =
    R"(Jobs hear of it as events (docs/events.md): which of their ranks it concerns, when, for how long, and
what to do. They may acknowledge it, or ask for more time; 'list' shows that, and you decide. What is
announced outlives a restart of the daemon, and so does the record of what was promised and kept
('harmonaize promises'). It is this host's alone: announce it at each host that it concerns. Only
operators may.

Exit status: 0; 1 when no daemon answered, this user is no operator, or the daemon refused; 2 for
wrong options.

Examples:
  harmonaize maintenance announce --in 2h --for 10min --text 'new firmware'
  harmonaize maintenance list
  harmonaize maintenance announce --id operator-3f9a01c2 --at 2026-12-01T02:00:00Z
  harmonaize maintenance start operator-3f9a01c2
  harmonaize maintenance complete operator-3f9a01c2)";

constexpr char kAnnounceDescription[] =
    "Announce maintenance, or change what was announced. Prints its id.";

constexpr char kAnnounceFooter[] =
    R"(Without --id it is a new announcement. With the id of one, what is not named stays as it was, and jobs
are told of the change. A time that jobs were promised is kept in the record: beginning before it is a
promise broken.

Exit status: 0; 1 when no daemon answered, this user is no operator, or the daemon refused; 2 for
wrong options.

Examples:
  harmonaize maintenance announce --in 2h --for 10min --text 'new firmware'
  harmonaize maintenance announce --at 2026-12-01T02:00:00Z --kind reclaim
  harmonaize maintenance announce --in 30min --for 20s --survives --text 'live migration'
  harmonaize maintenance announce --id operator-3f9a01c2 --in 4h)";

constexpr char kEndOfStatus[] =
    "Exit status: 0; 1 when no daemon answered, this user is no operator, or the daemon refused; 2 "
    "for\nwrong options.\n\n";

constexpr char kTarget[] = "/v1/hosts/this/maintenance";

struct AnnounceOptions {
  std::string socket;
  std::string id;
  std::string in;
  std::string at;
  std::string duration;
  std::string kind;
  std::string text;
  bool survives = false;
  bool json = false;
};

struct ChangeOptions {
  std::string socket;
  std::string id;
  bool json = false;
};

Result<std::string> Post(const std::string& socket, const Json& order) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindOperatorsHttp(socket));
  const std::string body = order.dump(-1, ' ', false, Json::error_handler_t::replace);
  return CallDaemon(daemon, {.method = "POST", .target = kTarget, .body = body});
}

Result<std::string> Announce(const AnnounceOptions& options) {
  Json order = Json::object();
  if (!options.id.empty()) order["id"] = options.id;
  if (!options.kind.empty()) order["kind"] = options.kind;
  if (!options.text.empty()) order["text"] = options.text;
  if (options.survives) order["survives"] = true;
  if (!options.in.empty()) {
    HZ_ASSIGN_OR_RETURN(const double seconds, SecondsInWord(options.in));
    order["not_before"] = MomentIn(seconds);
  }
  if (!options.at.empty()) {
    HZ_ASSIGN_OR_RETURN(order["not_before"], MomentInWord(options.at));
  }
  if (!options.duration.empty()) {
    HZ_ASSIGN_OR_RETURN(const double seconds, SecondsInWord(options.duration));
    order["duration_seconds"] = std::llround(seconds);
  }
  HZ_ASSIGN_OR_RETURN(const std::string answer, Post(options.socket, order));
  if (options.json) return IndentJson(answer);
  HZ_ASSIGN_OR_RETURN(const Json announced, ParseDocument(answer));
  return TextAt(announced, "id") + "\n";
}

Result<std::string> List(const ChangeOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindOperatorsHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const std::string answer, CallDaemon(daemon, {.target = kTarget}));
  return options.json ? IndentJson(answer) : MaintenanceTable(answer);
}

Result<std::string> SetState(const ChangeOptions& options, const char* state, const char* word) {
  HZ_ASSIGN_OR_RETURN(const std::string answer,
                      Post(options.socket, {{"id", options.id}, {"state", state}}));
  if (options.json) return IndentJson(answer);
  return options.id + " " + word + "\n";
}

void AddAnnounce(CLI::App& maintenance, CommandLine& command_line) {
  CLI::App* announce = maintenance.add_subcommand("announce", kAnnounceDescription);
  auto options = std::make_shared<AnnounceOptions>();
  announce->footer(kAnnounceFooter);
  announce->add_option("--id", options->id, "Change the announcement of this id, or give it")
      ->type_name("ID");
  CLI::Option* const in =
      announce->add_option("--in", options->in, "Begins so long from now, such as 30min or 2h")
          ->check(CLI::Validator(CheckSecondsWord, ""))
          ->type_name("TIME");
  announce->add_option("--at", options->at, "Begins then, such as 2026-12-01T02:00:00Z (UTC)")
      ->check(CLI::Validator(CheckMomentWord, ""))
      ->type_name("MOMENT")
      ->excludes(in);
  announce->add_option("--for", options->duration, "Lasts so long")
      ->check(CLI::Validator(CheckSecondsWord, ""))
      ->type_name("TIME");
  announce
      ->add_option("--kind", options->kind,
                   "maintenance, reclaim (the host is taken away),\n"
                   "risk_of_reclaim or unhealthy (default: maintenance)")
      ->check(CLI::IsMember({"maintenance", "reclaim", "risk_of_reclaim", "unhealthy"}))
      ->type_name("KIND");
  announce->add_flag("--survives", options->survives,
                     "Processes go on after it where they are; otherwise they end");
  announce->add_option("--text", options->text, "What it is, for operators; jobs do not see it")
      ->type_name("TEXT");
  announce->add_flag("--json", options->json, "Print the daemon's answer as JSON");
  AddSocketOption(announce, &options->socket);
  announce->callback(
      [options, &command_line] { command_line.exit_status = Print(Announce(*options)); });
}

void AddList(CLI::App& maintenance, CommandLine& command_line) {
  CLI::App* list = maintenance.add_subcommand(
      "list", "List what is announced for this host, and which jobs have answered.");
  auto options = std::make_shared<ChangeOptions>();
  list->footer(std::string(kEndOfStatus) +
               "Examples:\n  harmonaize maintenance list\n"
               "  harmonaize maintenance list --json | jq '.announced[].answers'");
  list->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(list, &options->socket);
  list->callback([options, &command_line] { command_line.exit_status = Print(List(*options)); });
}

/// A command that gives an announcement another state.
struct Change {
  const char* name;
  const char* description;
  const char* state;
  const char* word;  ///< What is printed behind the id.
};

constexpr Change kChanges[] = {
    {"start", "Say that maintenance begins now.", "started", "has begun"},
    {"complete", "Say that maintenance is over.", "completed", "is over"},
    {"cancel", "Say that maintenance will not take place.", "withdrawn", "is called off"}};

void AddChange(CLI::App& maintenance, CommandLine& command_line, const Change& change) {
  CLI::App* command = maintenance.add_subcommand(change.name, change.description);
  auto options = std::make_shared<ChangeOptions>();
  command->footer(std::string(kEndOfStatus) + "Example:\n  harmonaize maintenance " + change.name +
                  " operator-3f9a01c2");
  command->add_option("ID", options->id, "Its id, as 'maintenance list' shows it")
      ->required()
      ->type_name("");
  command->add_flag("--json", options->json, "Print the daemon's answer as JSON");
  AddSocketOption(command, &options->socket);
  command->callback([options, &command_line, change] {
    command_line.exit_status = Print(SetState(*options, change.state, change.word));
  });
}

}  // namespace

void AddMaintenanceCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* maintenance = app.add_subcommand("maintenance", kDescription);
  maintenance->footer(kFooter);
  maintenance->require_subcommand(1);
  AddAnnounce(*maintenance, command_line);
  AddList(*maintenance, command_line);
  for (const Change& change : kChanges) AddChange(*maintenance, command_line, change);
}

}  // namespace harmonaize
