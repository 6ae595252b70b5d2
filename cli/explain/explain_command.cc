#include "cli/explain/explain_command.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "cli/daemon_document.h"
#include "cli/explain/explain_table.h"
#include "cli/json_view.h"
#include "cli/status/communicator_table.h"
#include "src/base/collective.h"

namespace harmonaize {
namespace {

constexpr char kExplainDescription[] =
    "Show how operations are carried out, and why: on this host, or those of one communicator.";

constexpr char kExplainFooter[] =
    R"(Where all ranks of a communicator share this host, each operation can go two ways. Inline, the ranks
do it themselves on memory that they share: quick to start, but every rank moves data through a
slot. Offload, the daemon's workers do it: one pass over the memory, but threads have to be woken.
The daemon measured what either costs on this host when it first started here, and lets operations
go inline up to the largest block for which that is predicted to be no slower. A block is the count
of the call times the size of its type. Costs that were measured while the host was busy, or that no
two measurements agree on, are shown as unsure, with the reasons; the daemon measures the host again
while it is at rest.

The tables show the prediction and the choice by size, for buffers from ncclMemAlloc (registered)
and for any others (heap). --json has more sizes. A time measured by a benchmark is the better one
where they differ; [inline] in the daemon's configuration then overrides the choice.

With COMM, the id or name of a communicator in 'harmonaize status' or 'harmonaize jobs', it tells
how the collectives of that one are carried out between its hosts: for each collective and size met
so far the plan that was chosen, the time that was predicted, how near that is to the least that the
network's narrowest cut allows (the bound), and what was measured since; at the daemon where the
communicator was formed also what the plan was chosen from. Plans change while a job goes on; with
--history that daemon tells which did, from which operation on, and for what reason. Operators are
also told the way that plans take through the fabric, and the links that were the reason.

Exit status: 0 when a daemon answered; 1 when none did, or it refused; 2 for wrong options.

Examples:
  harmonaize explain
  harmonaize explain 0c48bbc4
  harmonaize explain 0c48bbc4 --history
  harmonaize explain --ranks 8 --collective all_reduce
  harmonaize explain --json | jq '.collectives[] | {name, limit: .heap.limit_bytes}')";

struct ExplainOptions {
  std::string socket;
  std::string communicator;
  std::string collective;
  int ranks = 2;
  bool history = false;
  bool json = false;
};

Result<std::string> ExplainCommunicator(const ExplainOptions& options) {
  const Result<std::string> document =
      FetchCommunicatorExplanation(options.socket, options.communicator);
  if (!document.ok()) return document;
  if (options.json) return IndentJson(*document);
  return options.history ? PlanHistoryTable(*document) : CommunicatorTable(*document);
}

Result<std::string> Explain(const ExplainOptions& options) {
  if (!options.communicator.empty()) return ExplainCommunicator(options);
  Result<std::string> document = FetchDaemonExplanation(options.socket, options.ranks);
  if (document.ok() && !options.collective.empty()) {
    document = SelectCollective(*document, options.collective);
  }
  if (!document.ok()) return document;
  return options.json ? IndentJson(*document) : ExplainTable(*document);
}

}  // namespace

void AddExplainCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* explain = app.add_subcommand("explain", kExplainDescription);
  auto options = std::make_shared<ExplainOptions>();
  explain->footer(kExplainFooter);
  CLI::Option* const communicator =
      explain->add_option("COMM", options->communicator, "A communicator's id, name or number")
          ->type_name("");
  explain->add_option("--collective", options->collective, "Only this one, such as AllReduce")
      ->transform(CLI::Validator(CheckCollective, ""))
      ->type_name("COLLECTIVE")
      ->excludes(communicator);
  explain
      ->add_option("--ranks", options->ranks,
                   "For a communicator of so many ranks on this host (default: 2)")
      ->check(CLI::PositiveNumber)
      ->type_name("N")
      ->excludes(communicator);
  explain
      ->add_flag(
          "--history", options->history,
          "Show how the plans of COMM have changed, when, and why; at the daemon that formed it")
      ->needs(communicator);
  explain->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(explain, &options->socket);
  explain->callback(
      [options, &command_line] { command_line.exit_status = Print(Explain(*options)); });
}

}  // namespace harmonaize
