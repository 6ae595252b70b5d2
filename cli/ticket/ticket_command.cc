#include "cli/ticket/ticket_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/daemon_http.h"
#include "cli/json_view.h"
#include "cli/maintenance/time_words.h"
#include "cli/ticket/ticket_file.h"
#include "cli/ticket/ticket_table.h"
#include "src/base/file_descriptor.h"
#include "src/base/json_text.h"
#include "src/base/write_whole.h"

namespace harmonaize {
namespace {

constexpr char kTicketDescription[] =
    "Make, list and burn the tickets by which new processes join a running job.";

constexpr char kTicketFooter[] =
    R"(A process that is no rank of a job yet joins it by the job's name and a ticket (hzJoinJob), at any
host of the cluster. A rank of the job admits it (hzAdmit). A ticket is a secret: it holds for some
time and some uses, for processes of the job's own user alone.

Exit status: 0; 1 when no daemon answered, there is no such job here, or the daemon refused; 2 for
wrong options.

Examples:
  harmonaize ticket make llama --uses 4 --for 2h --file ~/llama.ticket
  HARMONAIZE_TICKET_FILE=~/llama.ticket python join.py
  harmonaize ticket list llama
  harmonaize ticket burn llama)";

constexpr char kMakeTicketDescription[] =
    "Make a ticket of a job, and write it to a file or print it.";

constexpr char kMakeTicketFooter[] =
    R"(The ticket is shown this once: the daemon keeps no copy of it. With --file it goes to a new file that
nobody else may read (mode 0600), which HARMONAIZE_TICKET_FILE names to the newcomer. Otherwise it
is printed alone on standard output. What else there is to know of it goes to standard error.

Do not put a ticket into a command line or into the environment, where others may see it.

Exit status: 0; 1 when no daemon answered, there is no such job here, the file exists, or the daemon
refused; 2 for wrong options.

Examples:
  harmonaize ticket make llama --file ~/llama.ticket
  harmonaize ticket make llama --uses 8 --for 30min | ssh host 'umask 077; cat > llama.ticket')";

constexpr char kListTicketsDescription[] =
    "List the tickets of a job that can be used, and how many newcomers wait. Nothing shows "
    "secrets.";

constexpr char kListTicketsFooter[] =
    R"(Exit status: 0; 1 when no daemon answered, or there is no such job here; 2 for wrong options.

Examples:
  harmonaize ticket list llama
  harmonaize ticket list llama --json | jq .waiting)";

constexpr char kBurnTicketsDescription[] =
    "Burn all tickets of a job at once: newcomers that wait by them are refused.";

constexpr char kBurnTicketsFooter[] =
    R"(Newcomers that have been admitted keep their places, and ranks stay. A rank, or 'ticket make', makes
new tickets.

Exit status: 0; 1 when no daemon answered, or there is no such job here; 2 for wrong options.

Example:
  harmonaize ticket burn llama)";

/// Longest time that a ticket may hold, in seconds, as the daemon has it.
constexpr double kMostTicketSeconds = 30 * 86400.0;

struct MakeTicketOptions {
  std::string socket;
  std::string job;
  std::string file;
  std::string holds = "1h";
  int uses = 1;
  bool json = false;
};

struct TicketJobOptions {
  std::string socket;
  std::string job;
  bool json = false;
};

std::string TicketsOf(const std::string& job) {
  return "/v1/jobs/" + EncodeForUrl(job) + "/tickets";
}

/// Returns what is printed of a ticket that was made.
Result<std::string> Hand(const MakeTicketOptions& options, const FileDescriptor& file,
                         const std::string& answer) {
  HZ_ASSIGN_OR_RETURN(const Json made, ParseDocument(answer));
  if (!At(made, "ticket").is_string()) {
    return RemoteError(
        "the daemon's answer has no ticket in it; `harmonaize ticket list` shows "
        "whether there is one");
  }
  const std::string ticket = TextAt(made, "ticket") + "\n";
  Complain(fmt::format("ticket {} serves {} times until {}; it is not shown again",
                       TextAt(made, "id"), TextAt(made, "uses"), MomentAt(made, "expires")));
  if (file.valid()) {
    HZ_RETURN_IF_ERROR(WriteWhole(file.get(), ticket, options.file));
    return std::string();
  }
  if (isatty(STDOUT_FILENO) != 0) {
    Complain(
        "whoever sees this ticket and is of your user can join the job: --file writes it to a "
        "file instead");
  }
  return options.json ? IndentJson(answer) : ticket;
}

Result<std::string> MakeTicketOf(const MakeTicketOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindTenantsHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const double seconds, SecondsInWord(options.holds, kMostTicketSeconds));
  FileDescriptor file;
  if (!options.file.empty()) {
    HZ_ASSIGN_OR_RETURN(file, NewTicketFile(options.file));
  }
  const Json order = {{"uses", options.uses}, {"seconds", seconds}};
  const Result<std::string> answer = CallDaemon(
      daemon, {.method = "POST", .target = TicketsOf(options.job), .body = JsonText(order)});
  Result<std::string> text = answer.status();
  if (answer.ok()) text = Hand(options, file, *answer);
  // A file without a ticket would only puzzle.
  if (!text.ok() && file.valid()) unlink(options.file.c_str());
  return text;
}

Result<std::string> ListTickets(const TicketJobOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const std::string answer,
                      CallDaemon(daemon, {.target = TicketsOf(options.job)}));
  return options.json ? IndentJson(answer) : TicketTable(answer);
}

Result<std::string> BurnTickets(const TicketJobOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, FindHttp(options.socket));
  HZ_ASSIGN_OR_RETURN(const std::string answer,
                      CallDaemon(daemon, {.method = "DELETE", .target = TicketsOf(options.job)}));
  return options.json ? IndentJson(answer) : "the tickets of " + options.job + " are burnt\n";
}

void AddJob(CLI::App* command, std::string* job) {
  command->add_option("JOB", *job, "The job: its name, or its id")->required()->type_name("");
}

void AddMake(CLI::App& ticket, CommandLine& command_line) {
  CLI::App* make = ticket.add_subcommand("make", kMakeTicketDescription);
  auto options = std::make_shared<MakeTicketOptions>();
  make->footer(kMakeTicketFooter);
  AddJob(make, &options->job);
  make->add_option("--uses", options->uses, "How many processes can join by it (default: 1)")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  make->add_option("--for", options->holds,
                   "How long it holds, as 30min, 1h or 2d; 30d at most\n"
                   "(default: 1h)")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return SecondsInWord(text, kMostTicketSeconds).status().message();
          },
          ""))
      ->type_name("TIME");
  make->add_option("--file", options->file, "Write it to this new file, of mode 0600")
      ->type_name("FILE");
  make->add_flag("--json", options->json, "Print the daemon's answer, with the ticket, as JSON");
  AddSocketOption(make, &options->socket);
  make->callback(
      [options, &command_line] { command_line.exit_status = Print(MakeTicketOf(*options)); });
}

/// Adds a command that only names a job.
void AddOfJob(CLI::App& ticket, CommandLine& command_line, const char* name,
              const char* description, const char* footer,
              Result<std::string> (*run)(const TicketJobOptions&)) {
  CLI::App* command = ticket.add_subcommand(name, description);
  auto options = std::make_shared<TicketJobOptions>();
  command->footer(footer);
  AddJob(command, &options->job);
  command->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(command, &options->socket);
  command->callback(
      [options, run, &command_line] { command_line.exit_status = Print(run(*options)); });
}

}  // namespace

void AddTicketCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* ticket = app.add_subcommand("ticket", kTicketDescription);
  ticket->footer(kTicketFooter);
  ticket->require_subcommand(1);
  AddMake(*ticket, command_line);
  AddOfJob(*ticket, command_line, "list", kListTicketsDescription, kListTicketsFooter, ListTickets);
  AddOfJob(*ticket, command_line, "burn", kBurnTicketsDescription, kBurnTicketsFooter, BurnTickets);
}

}  // namespace harmonaize
