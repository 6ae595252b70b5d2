#include "cli/maintenance/maintenance_command.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "cli/daemon_http.h"
#include "cli/json_view.h"
#include "cli/maintenance/maintenance_table.h"
#include "cli/maintenance/time_words.h"
#include "src/base/json_text.h"

namespace harmonaize {
namespace {

constexpr char kDescription[] =
    "Announce maintenance of this host to the jobs on it, and see which of them are ready.";

constexpr char kFooter[] =
    R"(Jobs hear of it as events (docs/events.md): which of their ranks it concerns, when, for how long, and
what to do. They may acknowledge it, or ask for more time; 'list' shows that, and you decide. Say when
it begins ('start') and is over ('complete'), or that it will not take place ('cancel'): what is past
and has not begun is marked in the list, and jobs that come later do not hear of it. What is announced
outlives a restart of the daemon, and so does the record of what was promised and kept
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
    R"(Without --id it is a new announcement, which needs a time: --in, --at, or '--at unknown'. With the id
of one, what is not named stays as it was, and jobs are told of the change. A time that jobs were
promised is kept in the record: an earlier one needs --early, and is a promise broken. The moment is
echoed on standard error.

Exit status: 0; 1 when no daemon answered, this user is no operator, or the daemon refused; 2 for
wrong options.

Examples:
  harmonaize maintenance announce --in 2h --for 10min --text 'new firmware'
  harmonaize maintenance announce 1h30m --new-id firmware-7
  harmonaize maintenance announce --at 2026-12-01T04:00+02:00 --kind reclaim
  harmonaize maintenance announce --in 30min --for 20s --survives --text 'live migration'
  harmonaize maintenance announce --id operator-3f9a01c2 --in 4h)";

constexpr char kEndOfStatus[] =
    "Exit status: 0; 1 when no daemon answered, this user is no operator, or the daemon refused; 2 "
    "for\nwrong options.\n\n";

constexpr char kTarget[] = "/v1/hosts/this/maintenance";

struct AnnounceOptions {
  std::string socket;
  std::string id;
  std::string new_id;
  std::string when;
  std::string in;
  std::string at;
  std::string duration;
  std::string kind;
  std::string text;
  bool survives = false;
  bool early = false;
  bool json = false;
};

struct ChangeOptions {
  std::string socket;
  std::string id;
  bool early = false;
  bool json = false;
};

Result<std::string> Post(const std::string& socket, const Json& order) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindOperatorsHttp(socket));
  const std::string body = JsonText(order);
  return CallDaemon(daemon, {.method = "POST", .target = kTarget, .body = body});
}

/// Returns the moment that the options name, or kUnknownMoment; "": they name none.
Result<std::string> MomentOf(const AnnounceOptions& options) {
  if (!options.in.empty()) {
    HZ_ASSIGN_OR_RETURN(const double seconds, SecondsInWord(options.in));
    return MomentIn(seconds);
  }
  const std::string& word = options.at.empty() ? options.when : options.at;
  if (word.empty() || word == kUnknownMoment) return word;
  const Result<double> seconds = SecondsInWord(word);
  if (options.at.empty() && seconds.ok()) return MomentIn(*seconds);
  return MomentInWord(word);
}

/// Returns whether what is announced is something that begins at a time.
bool HasTime(const std::string& kind) {
  return kind.empty() || kind == "maintenance" || kind == "reclaim";
}

/// Says when it begins, since a word such as 2h does not.
void EchoMoment(const Json& announced) {
  if (At(announced, "not_before").is_null()) return;
  Complain(fmt::format("{} does not begin before {}", TextAt(announced, "id"),
                       MomentAt(announced, "not_before")));
}

Result<std::string> Announce(const AnnounceOptions& options) {
  Json order = Json::object();
  if (!options.id.empty()) order["id"] = options.id;
  if (!options.new_id.empty()) order["new_id"] = options.new_id;
  if (!options.kind.empty()) order["kind"] = options.kind;
  if (!options.text.empty()) order["text"] = options.text;
  if (options.survives) order["survives"] = true;
  if (options.early) order["early"] = true;
  HZ_ASSIGN_OR_RETURN(const std::string moment, MomentOf(options));
  if (!moment.empty()) order["not_before"] = moment == kUnknownMoment ? Json() : Json(moment);
  if (!options.duration.empty()) {
    HZ_ASSIGN_OR_RETURN(const double seconds, SecondsInWord(options.duration));
    order["duration_seconds"] = std::llround(seconds);
  }
  HZ_ASSIGN_OR_RETURN(const std::string answer, Post(options.socket, order));
  HZ_ASSIGN_OR_RETURN(const Json announced, ParseDocument(answer));
  EchoMoment(announced);
  if (options.json) return IndentJson(answer);
  return TextAt(announced, "id") + "\n";
}

int RunAnnounce(const AnnounceOptions& options) {
  const bool names_time = !options.in.empty() || !options.at.empty() || !options.when.empty();
  if (options.id.empty() && !names_time && HasTime(options.kind)) {
    Complain("when does it begin? --in 2h, --at 2026-12-01T02:00:00Z, or --at unknown");
    return kUsageStatus;
  }
  return Print(Announce(options));
}

Result<std::string> List(const ChangeOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindOperatorsHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const std::string answer, CallDaemon(daemon, {.target = kTarget}));
  return options.json ? IndentJson(answer) : MaintenanceTable(answer);
}

Result<std::string> SetState(const ChangeOptions& options, const char* state, const char* word) {
  Json order = {{"id", options.id}, {"state", state}};
  if (options.early) order["early"] = true;
  HZ_ASSIGN_OR_RETURN(const std::string answer, Post(options.socket, order));
  if (options.json) return IndentJson(answer);
  return options.id + " " + word + "\n";
}

/// Begins the ids of drains, and longest id of an announcement in bytes: what daemons take.
constexpr char kDrainPrefix[] = "drain-";
constexpr size_t kMostIdBytes = 128;

/// Returns "" if the text can be the id of a new announcement, as CLI::Validator requires.
std::string CheckNewId(const std::string& id) {
  if (id.empty() || id.size() > kMostIdBytes ||
      id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos) {
    return fmt::format("an id has 1 to {} characters of a-z, 0-9 and '-'", kMostIdBytes);
  }
  return id.starts_with(kDrainPrefix) ? "ids that begin with 'drain-' are those of drains"
                                      : std::string();
}

std::string CheckWhen(const std::string& word) {
  const bool is_time = SecondsInWord(word).ok() || IsNumberAlone(word);
  return is_time ? CheckSecondsWord(word) : CheckMomentWord(word);
}

void AddAnnounce(CLI::App& maintenance, CommandLine& command_line) {
  CLI::App* announce = maintenance.add_subcommand("announce", kAnnounceDescription);
  auto options = std::make_shared<AnnounceOptions>();
  announce->footer(kAnnounceFooter);
  CLI::Option* const id =
      announce->add_option("--id", options->id, "Change the announcement that has this id")
          ->type_name("ANNOUNCEMENT");
  announce
      ->add_option(
          "--new-id", options->new_id,
          "The id of a new announcement: a-z, 0-9 and '-'.\nJobs read it (default: one is drawn)")
      ->check(CLI::Validator(CheckNewId, ""))
      ->type_name("ID")
      ->excludes(id);
  CLI::Option* const in =
      announce->add_option("--in", options->in, "Begins so long from now, such as 30min or 2h")
          ->check(CLI::Validator(CheckSecondsWord, ""))
          ->type_name("TIME");
  CLI::Option* const at =
      announce
          ->add_option("--at", options->at,
                       "Begins then, such as 2026-12-01T02:00:00Z or\n2026-12-01T04:00+02:00; or "
                       "'unknown'")
          ->check(CLI::Validator(CheckMomentWord, ""))
          ->type_name("MOMENT")
          ->excludes(in);
  announce->add_option("WHEN", options->when, "The same as --in or --at")
      ->check(CLI::Validator(CheckWhen, ""))
      ->type_name("")
      ->excludes(in)
      ->excludes(at);
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
  announce->add_flag("--early", options->early,
                     "Also for a time before the one that jobs were promised, which\n"
                     "breaks the promise");
  announce->add_option("--text", options->text, "What it is, for operators; jobs do not see it")
      ->type_name("TEXT");
  announce->add_flag("--json", options->json, "Print the daemon's answer as JSON");
  AddSocketOption(announce, &options->socket);
  announce->callback(
      [options, &command_line] { command_line.exit_status = RunAnnounce(*options); });
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
  bool begins = false;
};

constexpr Change kChanges[] = {
    {"start", "Say that maintenance begins now.", "started", "has begun", true},
    {"complete", "Say that maintenance is over.", "completed", "is over"},
    {"cancel", "Say that maintenance will not take place.", "withdrawn", "is called off"}};

void AddChange(CLI::App& maintenance, CommandLine& command_line, const Change& change) {
  CLI::App* command = maintenance.add_subcommand(change.name, change.description);
  auto options = std::make_shared<ChangeOptions>();
  command->footer(std::string(kEndOfStatus) + "Example:\n  harmonaize maintenance " + change.name +
                  " operator-3f9a01c2");
  command->add_option("ANNOUNCEMENT", options->id, "Its id, as 'maintenance list' shows it")
      ->required()
      ->type_name("");
  if (change.begins) {
    command->add_flag("--early", options->early,
                      "Also before the time that jobs were promised, which breaks the promise");
  }
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
