#include "cli/status_command.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/daemon_document.h"
#include "cli/json_view.h"
#include "cli/status_table.h"

namespace harmonaize {
namespace {

constexpr char kDescription[] =
    "Show the host's daemon and what it serves: tenants, communicators, operations and bytes.";

constexpr char kFooter[] =
    R"(A tenant sees itself; root, and the user who runs the daemon, see all tenants.

Exit status: 0 when a daemon answered; 1 when none did, or it answered with something else.

Examples:
  harmonaize status
  harmonaize status --json | jq .tenants
  harmonaize status --socket /run/harmonaize/harmonaized.sock)";

struct StatusOptions {
  std::string socket;
  bool json = false;
};

Result<std::string> DaemonsStatus(const StatusOptions& options) {
  const Result<std::string> document = FetchDaemonStatus(options.socket);
  if (!document.ok()) return document;
  return options.json ? IndentJson(*document) : StatusTable(*document);
}

}  // namespace

void AddStatusCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* status = app.add_subcommand("status", kDescription);
  auto options = std::make_shared<StatusOptions>();
  status->footer(kFooter);
  status->add_flag("--json", options->json, "Print what the daemon says as JSON");
  AddSocketOption(status, &options->socket);
  status->callback(
      [options, &command_line] { command_line.exit_status = Print(DaemonsStatus(*options)); });
}

}  // namespace harmonaize
