#include "cli/events/events_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/daemon_http.h"
#include "cli/events/event_output.h"
#include "cli/events/event_reading.h"
#include "cli/jobs/job_search.h"
#include "cli/json_view.h"
#include "cli/maintenance/time_words.h"
#include "cli/terminal.h"
#include "src/base/json_text.h"
#include "src/base/time_text.h"
#include "src/base/wall_clock.h"
#include "src/events/event.h"
#include "src/events/event_filter.h"
#include "src/events/event_type.h"

namespace harmonaize {
namespace {

constexpr char kEventsDescription[] =
    "Show what the daemon tells jobs: late and lost ranks, slow links, plans that changed, "
    "maintenance.";

constexpr char kEventsFooter[] =
    R"(Without options these are the events that the daemon has kept, oldest first. With --follow they are
those that come from now on, until Ctrl-C; when the daemon is restarted, the events go on where they
were. A tenant hears of its own jobs; operators hear of all jobs, and of the host.

Times are UTC. The job is the beginning of its id, which 'harmonaize jobs' shows too. With --json
each event is a line of JSON as CloudEvents 1.0 has it. Its 'id' is what --after takes: the events
then begin behind that one. Where events are missing because the daemon does not keep them any more,
a line on standard error says how many.

With --acknowledge a tenant says that it is ready for what an event tells of that has a deadline, such
as maintenance; --extend asks for more time. Below each event that can still be answered a line says
how. The text of an event ends with the id of what was announced, in brackets.
EVENT is the event's id, the beginning of it where that is enough to tell, or, at the host that is
maintained, the id in the event's 'maintenance'. Operators see the answers; neither changes the
deadline by itself.

JOB is a job's name, its id, or the beginning of its id. Jobs whose events are kept count, too, after
they have ended and after a restart of the daemon.

TYPES are names and families of types, separated by commas: 'rank.late,link.*'. docs/events.md and GET
/v1/event-types list them, and an unknown one is answered with the nearest.

Severities have colours on a terminal, unless NO_COLOR is set.

Exit status: 0; 1 when no daemon answered, or it refused; 2 for wrong options.

Examples:
  harmonaize events
  harmonaize events --follow --severity WARN
  harmonaize events --job llama --types 'rank.*,link.degraded'
  harmonaize events --follow --from start --json | jq -r .data.text
  harmonaize events --types maintenance.scheduled --json | jq -r .id
  harmonaize events --acknowledge 3f9a01c2d4e5f60718293a4b5c6d7e8f.4a5b6c7d8e9f0a1b
  harmonaize events --extend 3f9a01c2 --by 10min)";

/// Most events that a user may ask for; more than any daemon keeps.
constexpr uint64_t kMostEvents = 1'000'000'000;

struct EventsOptions {
  std::string socket;
  std::string job;
  std::string types;
  std::string severity;
  std::string after;
  std::string from;
  uint64_t limit = 0;
  std::string acknowledge;
  std::string extend;
  std::string by;
  bool follow = false;
  bool json = false;
};

/// Returns "" if the text names types of events, as CLI::Validator requires.
std::string CheckTypes(const std::string& text) {
  return ParseEventTypes(text).status().message();
}

/// Returns the id of the job that a user means. Events outlive the daemon's memory of their job, so
/// the kept ones tell of jobs, too.
Result<std::string> JobWithEvents(const DaemonHttp& daemon, const std::string& which) {
  if (IsWholeJobId(which)) return which;
  HZ_ASSIGN_OR_RETURN(const Json jobs, GetDocument(daemon, "/v1/jobs"));
  const Result<std::string> here = FindJobId(jobs, which);
  if (here.ok() || here.status().code() != Code::kUnavailable) return here;
  const Result<Json> page =
      GetDocument(daemon, "/v1/events?follow=false&limit=1&job=" + EncodeForUrl(which));
  // The daemon's reason to know no such job adds nothing to the one above.
  if (page.ok() && !ListAt(*page, "events").empty()) {
    return JobOfEvent(ListAt(*page, "events").front());
  }
  return InvalidUsage(
      "there is no job '{}' at this daemon, and no event of one is kept; `harmonaize jobs` lists "
      "the jobs that it knows, and `harmonaize events --json` has the whole id of each job in "
      "'source'",
      which);
}

/// Asks which events can be answered. A daemon that does not say leaves that unknown.
void LearnAnswerable(const DaemonHttp& daemon, EventLineStyle* style) {
  const std::string now = TimeText(static_cast<int64_t>(UnixSeconds() * 1e9));
  const Result<Json> promises = GetDocument(daemon, "/v1/promises");
  if (!promises.ok() || !At(*promises, "answerable").is_array()) return;
  style->known_until = now;
  for (const Json& id : ListAt(*promises, "answerable")) style->answerable.insert(TextOf(id));
}

Result<std::string> Show(const EventsOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(options.socket));
  EventQuery query{.types = options.types,
                   .after = options.after,
                   .from_start = options.from == "start",
                   .severity = options.severity};
  if (!options.job.empty()) {
    HZ_ASSIGN_OR_RETURN(query.job, JobWithEvents(daemon, options.job));
  }
  // A reader that goes, as `head` does, ends the program without an error.
  ::signal(SIGPIPE, SIG_IGN);
  EventLineStyle style{.tenants = daemon.as_operator,
                       .colours = !options.json && TakesColours(STDOUT_FILENO),
                       .own_tenant = fmt::format("uid {}", geteuid())};
  if (!options.json) LearnAnswerable(daemon, &style);
  EventOutput output({.style = style, .json = options.json, .limit = options.limit});
  HZ_RETURN_IF_ERROR(options.follow ? FollowEvents(daemon, query, &output)
                                    : ReadKeptEvents(daemon, query, &output));
  const bool nothing = output.written() == 0 && !options.follow && !options.json;
  return std::string(nothing ? "no events\n" : "");
}

/// Answers an event. That is done as a tenant, also by a user who is an operator besides.
Result<std::string> Answer(const EventsOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindTenantsHttp(options.socket));
  const bool ready = options.extend.empty();
  Json order = Json::object();
  if (!ready) {
    HZ_ASSIGN_OR_RETURN(order["seconds"], SecondsInWord(options.by));
  }
  const std::string target = "/v1/events/" +
                             EncodeForUrl(ready ? options.acknowledge : options.extend) +
                             (ready ? "/acknowledge" : "/extend");
  HZ_ASSIGN_OR_RETURN(
      const std::string answer,
      CallDaemon(daemon, {.method = "POST", .target = target, .body = JsonText(order)}));
  if (options.json) return IndentJson(answer);
  HZ_ASSIGN_OR_RETURN(const Json told, ParseDocument(answer));
  if (ready) return "acknowledged " + MomentAt(told, "acknowledged") + "\n";
  return "more time is asked for, until " + MomentAt(told, "asked_until") + "\n";
}

int Run(const EventsOptions& options) {
  if (options.extend.empty() != options.by.empty()) {
    Complain("--extend says which event, and --by how much longer: they go together");
    return kUsageStatus;
  }
  if (!options.acknowledge.empty() || !options.extend.empty()) return Print(Answer(options));
  if (!options.follow && options.from == "now") {
    Complain("--from now is for events that are still to come: it needs --follow");
    return kUsageStatus;
  }
  return Print(Show(options));
}

void AddOptions(CLI::App& events, EventsOptions& options) {
  events.add_flag("-f,--follow", options.follow, "Go on with the events that come");
  events
      .add_option("--job", options.job,
                  "Only of this job: its name, its id, or the beginning of\nthe id")
      ->type_name("JOB");
  events
      .add_option("--types", options.types,
                  "Only of these types, such as 'rank.late,link.*' (default: all)")
      ->check(CLI::Validator(CheckTypes, ""))
      ->type_name("TYPES");
  events.add_option("--severity", options.severity, "Only of this severity, or worse")
      ->transform(CLI::IsMember({"INFO", "WARN", "ERROR", "FATAL"}, CLI::ignore_case))
      ->type_name("SEVERITY");
  CLI::Option* const after =
      events.add_option("--after", options.after, "Begin behind the event of this id")
          ->type_name("ID");
  events
      .add_option("--from", options.from,
                  "Begin with the oldest that is kept, or with the next that comes\n"
                  "(default: start; with --follow now)")
      ->check(CLI::IsMember({"start", "now"}))
      ->type_name("WHERE")
      ->excludes(after);
  events.add_option("-n,--limit", options.limit, "End after so many events (default: never)")
      ->check(CLI::Range(uint64_t{1}, kMostEvents, "1 or more"))
      ->type_name("N");
  CLI::Option* const acknowledge =
      events
          .add_option("--acknowledge", options.acknowledge, "Say that you are ready for this event")
          ->type_name("EVENT");
  events.add_option("--extend", options.extend, "Ask for more time than this event gives")
      ->type_name("EVENT")
      ->excludes(acknowledge);
  events.add_option("--by", options.by, "With --extend: how much more, such as 10min; up to 30d")
      ->check(CLI::Validator(CheckMoreTimeWord, ""))
      ->type_name("TIME");
  events.add_flag("--json", options.json, "Print each event as a line of JSON");
  AddSocketOption(&events, &options.socket);
}

}  // namespace

void AddEventsCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* events = app.add_subcommand("events", kEventsDescription);
  auto options = std::make_shared<EventsOptions>();
  events->footer(kEventsFooter);
  AddOptions(*events, *options);
  events->callback([options, &command_line] { command_line.exit_status = Run(*options); });
}

}  // namespace harmonaize
