#include "cli/status/status_command.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

#include "cli/daemon_document.h"
#include "cli/json_view.h"
#include "cli/status/flight_files.h"
#include "cli/status/link_table.h"
#include "cli/status/status_table.h"
#include "cli/status/stuck_reading.h"
#include "cli/status/stuck_table.h"

namespace harmonaize {
namespace {

constexpr char kStatusDescription[] =
    "Show the host's daemon and what it serves: tenants, communicators, operations and bytes; or "
    "its links with other daemons; or which ranks keep operations from ending.";

constexpr char kStatusFooter[] =
    R"(A tenant sees itself. Operators see all tenants, and links: root, the user who runs the daemon, and
the members of the group that its configuration names (operators.group).

An operation that waits for ranks stands below its communicator. The number in "AllReduce #7" counts
what the daemon carried out or took over in the communicator, from 0 on: it is lower than opCount in
NCCL's log where ranks carried out operations among themselves, which 'inline operations' counts.

With --links each rail to another daemon has a row: what it sends and receives now (both looked at
for --seconds), in which part of the time there was something to send, a round trip and what of it
packets spend waiting in queues, and how many packets had to be sent again; and whether it goes
another way now because its own carries nothing. At the home of a communicator the links of the
fabric follow: what the file states, what plans count on, what was measured last, whether flows were
held up by the link then, how sure that is and how old.

With --stuck each communicator with an operation that does not end has a row, on whichever hosts
its ranks are: the ranks that are the cause, why (docs/diagnosis.md lists the classes), what their
processes do, for how long the first rank has waited, and the way out. A communicator that has not
formed, since ranks have not come, has one too, at the host that made the unique id.

With --flight-recorder each rank of this host gets a file of what it has posted and what has not
ended, in the form of PyTorch's flight recorder, in a folder for each communicator below DIR, which is made
where it is missing; with --json these files are JSON. Run it at each host, bring the folders together, and give one of them
to PyTorch's analyzer: 'torchfrtrace DIR/COMMUNICATOR'. With --ras the same is printed as JSON in
the form of NCCL's RAS ('ncclras -f json').

Exit status: 0 when a daemon answered, also where something hangs; 1 when none did, or it answered
with something else; 2 for wrong options.

Examples:
  harmonaize status
  harmonaize status --json | jq .tenants
  harmonaize status --links --seconds 2
  harmonaize status --stuck
  harmonaize status --flight-recorder ./trace
  harmonaize status --socket /run/harmonaize/harmonaized.sock)";

struct StatusOptions {
  std::string socket;
  bool json = false;
  bool links = false;
  bool stuck = false;
  bool ras = false;
  std::string flight_recorder;
  double seconds = 0.5;
};

Result<std::string> LinksStatus(const StatusOptions& options) {
  const Result<std::string> before = FetchDaemonStatus(options.socket);
  if (!before.ok()) return before;
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  const Result<std::string> after = FetchDaemonStatus(options.socket);
  if (!after.ok()) return after;
  const std::chrono::duration<double> between = std::chrono::steady_clock::now() - start;
  return LinkTable(*before, *after, between.count());
}

Result<std::string> StuckStatus(const StatusOptions& options) {
  HZ_ASSIGN_OR_RETURN(const std::string document, FetchStuck(options.socket));
  return options.json ? IndentJson(document) : StuckTable(document);
}

Result<std::string> DaemonsStatus(const StatusOptions& options) {
  if (options.links) return LinksStatus(options);
  if (options.stuck) return StuckStatus(options);
  if (options.ras) return FetchRas(options.socket);
  if (!options.flight_recorder.empty()) {
    return WriteFlightFiles(options.socket, options.flight_recorder, options.json);
  }
  const Result<std::string> document = FetchDaemonStatus(options.socket);
  if (!document.ok()) return document;
  return options.json ? IndentJson(*document) : StatusTable(*document);
}

}  // namespace

void AddStatusCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* status = app.add_subcommand("status", kStatusDescription);
  auto options = std::make_shared<StatusOptions>();
  status->footer(kStatusFooter);
  CLI::Option* const json =
      status->add_flag("--json", options->json, "Print what the daemon says as JSON");
  CLI::Option* const links = status
                                 ->add_flag("--links", options->links,
                                            "Show the rails to other daemons: what they carry now")
                                 ->excludes(json);
  status->add_option("--seconds", options->seconds, "How long to look at them (default: 0.5)")
      ->check(CLI::Range(0.01, 3600.0, "0.01 to 3600"))
      ->type_name("SECONDS")
      ->needs(links);
  CLI::Option* const stuck =
      status->add_flag("--stuck", options->stuck, "Show which ranks keep operations from ending")
          ->excludes(links);
  CLI::Option* const flight_recorder =
      status
          ->add_option("--flight-recorder", options->flight_recorder,
                       "Write what ranks have in flight into this folder, as PyTorch does")
          ->type_name("DIR")
          ->excludes(links)
          ->excludes(stuck);
  status
      ->add_flag("--ras", options->ras,
                 "Print what ranks have done, as JSON in the form of NCCL's RAS")
      ->excludes(links)
      ->excludes(stuck)
      ->excludes(flight_recorder);
  AddSocketOption(status, &options->socket);
  status->callback(
      [options, &command_line] { command_line.exit_status = Print(DaemonsStatus(*options)); });
}

}  // namespace harmonaize
