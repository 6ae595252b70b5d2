#include "cli/dashboard/dashboard_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/daemon_http.h"
#include "cli/dashboard/browser.h"
#include "cli/dashboard/relay.h"
#include "src/ipc/daemon_search.h"

namespace harmonaize {
namespace {

constexpr char kDashboardDescription[] =
    "Show the status page of the host's daemon in a browser: jobs, links, plans, events as they "
    "come.";

constexpr char kDashboardFooter[] =
    R"(The page is served at a port of 127.0.0.1 until Ctrl-C. Other users of the host can connect there,
too, so the link that is printed holds a secret. It works once, within ten minutes; where this is
run at a terminal, Enter prints a new one. The page shows what this user may see: a tenant its own
jobs, and with --operator everything. It changes nothing.

With a display the desktop's browser opens the page. To see it from another machine, forward the
port: ssh -L 8080:127.0.0.1:8080 HOST, with --port 8080 here.

Exit status: 0 after Ctrl-C; 1 when no daemon answered, this user is no operator, or the port is
taken; 2 for wrong options.

Examples:
  harmonaize dashboard
  harmonaize dashboard --operator --no-browser --port 8080)";

struct DashboardOptions {
  std::string socket;
  bool as_operator = false;
  bool no_browser = false;
  uint16_t port = 0;
};

/// Returns whether lines that are typed are for this program.
bool HasTerminal() {
  return isatty(STDIN_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

/// Has a browser open the link. Without a browser the printed link has to do.
void OpenLink(const std::string& link, std::optional<BrowserFile>* file) {
  Result<BrowserFile> written = BrowserFile::Write(link);
  const Status opened = written.ok() ? OpenInBrowser(written->path()) : written.status();
  if (!opened.ok()) return Complain(opened.message());
  *file = std::move(*written);
}

Result<std::string> Show(const DashboardOptions& options) {
  HZ_ASSIGN_OR_RETURN(const DaemonHttp daemon, options.as_operator
                                                   ? FindOperatorsHttp(options.socket)
                                                   : FindTenantsHttp(options.socket));
  const bool with_browser = !options.no_browser && HasDisplay();
  const bool at_terminal = HasTerminal();
  std::optional<BrowserFile> file;
  bool first = true;
  RelayOptions relay_options{.port = options.port,
                             .connect = [&daemon] { return FindDaemonHttp({daemon.place}); },
                             .read_terminal = at_terminal};
  relay_options.on_link = [&](const std::string& link) {
    std::printf("%s\n", link.c_str());
    std::fflush(stdout);
    if (first) {
      Complain(fmt::format("the status page, {}, until Ctrl-C{}",
                           options.as_operator ? "as operators see it" : "with your own jobs",
                           at_terminal ? "; Enter prints a new link" : ""));
      if (with_browser) OpenLink(link, &file);
    }
    first = false;
  };
  // xdg-open leaves no dead process behind, and a browser that goes ends nothing here.
  ::signal(SIGCHLD, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  HZ_ASSIGN_OR_RETURN(const std::unique_ptr<Relay> relay, Relay::Open(std::move(relay_options)));
  HZ_RETURN_IF_ERROR(relay->Run());
  return std::string();
}

}  // namespace

void AddDashboardCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* dashboard = app.add_subcommand("dashboard", kDashboardDescription);
  auto options = std::make_shared<DashboardOptions>();
  dashboard->footer(kDashboardFooter);
  dashboard->add_flag("--operator", options->as_operator,
                      "Show what operators see: all tenants, links, plans");
  dashboard->add_flag("--no-browser", options->no_browser, "Print the link, and open no browser");
  dashboard
      ->add_option("--port", options->port,
                   "Port of 127.0.0.1 to serve the page at (default: any\nthat is free)")
      ->check(CLI::Range(uint16_t{1}, uint16_t{65535}, "1 to 65535"))
      ->type_name("PORT");
  AddSocketOption(dashboard, &options->socket);
  dashboard->callback(
      [options, &command_line] { command_line.exit_status = Print(Show(*options)); });
}

}  // namespace harmonaize
