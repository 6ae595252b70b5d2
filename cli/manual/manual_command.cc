#include "cli/manual/manual_command.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/manual/manual_page.h"

namespace harmonaize {
namespace {

constexpr char kManualDescription[] =
    "Write the manual pages of all commands into a folder, from the texts of their --help.";

struct ManualOptions {
  std::string folder;
  std::string daemon_help;
};

/// A page, named harmonaize-run.1.
struct NamedPage {
  ManualFrame frame;
  std::string help;
  std::string file() const { return frame.name + "." + std::to_string(frame.section); }
};

Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) return ErrnoError(errno, "cannot write " + path);
  return Status::Ok();
}

Result<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return ErrnoError(errno, "cannot read " + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<CLI::App*> VisibleCommands(CLI::App& app) {
  return app.get_subcommands([](CLI::App* one) { return !one->get_group().empty(); });
}

/// Appends the pages of an application and its subcommands. `above` are the words before its name:
/// "harmonaize token".
void AddPages(CLI::App& app, const std::string& above, std::vector<NamedPage>* pages) {
  const std::string words = above.empty() ? app.get_name() : above + " " + app.get_name();
  ManualFrame frame{.name = words, .section = 1, .version = "harmonaize " HARMONAIZE_VERSION};
  std::replace(frame.name.begin(), frame.name.end(), ' ', '-');
  const std::string name = frame.name;
  if (!above.empty()) frame.see_also.push_back(name.substr(0, name.rfind('-')) + "(1)");
  for (const CLI::App* const command : VisibleCommands(app)) {
    frame.see_also.push_back(name + "-" + command->get_name() + "(1)");
  }
  if (above.empty()) frame.see_also.push_back("harmonaized(8)");
  // App::help would give the help of the subcommand that runs, which is this one.
  pages->push_back(
      {std::move(frame), app.get_formatter()->make_help(&app, words, CLI::AppFormatMode::Normal)});
  for (CLI::App* const command : VisibleCommands(app)) {
    AddPages(*command, words, pages);
  }
}

Result<NamedPage> DaemonPage(const std::string& help_file) {
  HZ_ASSIGN_OR_RETURN(std::string help, ReadFile(help_file));
  ManualFrame frame{.name = "harmonaized",
                    .section = 8,
                    .version = "harmonaize " HARMONAIZE_VERSION,
                    .see_also = {"harmonaize(1)", "systemctl(1)"}};
  return NamedPage{std::move(frame), std::move(help)};
}

Status WriteManual(CLI::App& app, const ManualOptions& options) {
  std::vector<NamedPage> pages;
  AddPages(app, "", &pages);
  if (!options.daemon_help.empty()) {
    HZ_ASSIGN_OR_RETURN(NamedPage daemon, DaemonPage(options.daemon_help));
    pages.push_back(std::move(daemon));
  }
  for (const NamedPage& page : pages) {
    HZ_ASSIGN_OR_RETURN(const std::string text, ManualPage(page.frame, page.help));
    HZ_RETURN_IF_ERROR(WriteFile(options.folder + "/" + page.file(), text));
  }
  return Status::Ok();
}

}  // namespace

void AddManualCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* manual = app.add_subcommand("manual", kManualDescription);
  manual->group("");
  auto options = std::make_shared<ManualOptions>();
  manual->add_option("FOLDER", options->folder, "Where to write them")->required();
  manual->add_option("--daemon-help", options->daemon_help,
                     "A file with what `harmonaized --help` prints");
  manual->callback([&app, options, &command_line] {
    const Status status = WriteManual(app, *options);
    if (!status.ok()) Complain(status.message());
    command_line.exit_status = status.ok() ? 0 : 1;
  });
}

}  // namespace harmonaize
