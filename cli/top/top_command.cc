#include "cli/top/top_command.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

#include "cli/daemon_document.h"
#include "cli/top/top_view.h"

namespace harmonaize {
namespace {

constexpr char kTopDescription[] =
    "Watch what the host's daemon does: tenants, communicators, their plans, rails, slow links.";

constexpr char kTopFooter[] =
    R"(The view is drawn anew every --interval seconds, the busiest first, until Ctrl-C; where the output
is no terminal, one view follows the other. A tenant sees itself; operators see all tenants, and
rails and links ('harmonaize status --help' says who they are). Rates are those of the last
interval; bytes are what ranks gave to operations, or, in the columns "inline", what they carried
out among themselves. Congestion, and changes of plans, are known at a communicator's home, the
daemon at which it was formed; "-" stands for what this daemon does not know.

Exit status: 0; 1 when no daemon answers, or it does not any more; 2 for wrong options.

Examples:
  harmonaize top
  harmonaize top --interval 0.5 --rows 5
  harmonaize top --count 1 > now.txt)";

struct TopOptions {
  std::string socket;
  double interval = 1;
  uint64_t count = 0;
  size_t rows = 0;
};

/// Returns the rows of each table with which a screen holds all four full tables.
size_t RowsOfTerminal() {
  constexpr size_t kTables = 4;
  constexpr size_t kOtherLines = 12;  // heads, gaps, the first line
  constexpr size_t kLeast = 3;
  constexpr size_t kWithoutTerminal = 20;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return kWithoutTerminal;
  const size_t lines = size.ws_row;
  return std::max(kLeast, lines > kOtherLines ? (lines - kOtherLines) / kTables : kLeast);
}

Result<std::string> Watch(const TopOptions& options) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  Result<std::string> before = FetchDaemonStatus(options.socket);
  if (!before.ok()) return before;
  auto since = std::chrono::steady_clock::now();
  for (uint64_t drawn = 0; options.count == 0 || drawn < options.count; ++drawn) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
    Result<std::string> after = FetchDaemonStatus(options.socket);
    if (!after.ok()) return after;
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> passed = now - since;
    const size_t rows = options.rows > 0 ? options.rows : RowsOfTerminal();
    const Result<std::string> view = TopView(*before, *after, passed.count(), rows);
    if (!view.ok()) return view;
    // Moves the cursor home, and clears the screen from there on.
    const char* const begin = terminal ? "\033[H\033[J" : drawn > 0 ? "\n" : "";
    std::printf("%s%s", begin, view->c_str());
    std::fflush(stdout);
    before = std::move(after);
    since = now;
  }
  return std::string();
}

}  // namespace

void AddTopCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* top = app.add_subcommand("top", kTopDescription);
  auto options = std::make_shared<TopOptions>();
  top->footer(kTopFooter);
  top->add_option("-i,--interval", options->interval, "Seconds between views (default: 1)")
      ->check(CLI::Range(0.05, 3600.0, "0.05 to 3600"))
      ->type_name("SECONDS");
  top->add_option("-n,--count", options->count, "End after so many views (default: never)")
      ->type_name("N");
  top->add_option("--rows", options->rows,
                  "Most rows of each table (default: as many as fit on the screen)")
      ->check(CLI::Range(1, 1'000'000, "1 or more"))
      ->type_name("N");
  AddSocketOption(top, &options->socket);
  top->callback([options, &command_line] { command_line.exit_status = Print(Watch(*options)); });
}

}  // namespace harmonaize
