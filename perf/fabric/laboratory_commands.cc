#include "perf/fabric/laboratory_commands.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/run/launcher_signals.h"
#include "perf/fabric/complain.h"
#include "perf/fabric/laboratory.h"
#include "perf/fabric/name_option.h"
#include "perf/fabric/status.h"

namespace harmonaize::fabric {
namespace {

struct LaboratoryOptions {
  std::string file;
  std::string name;
  bool json = false;
};

Status Up(const LaboratoryOptions& options) {
  Result<LauncherSignals> signals = LauncherSignals::Take();
  if (!signals.ok()) return signals.status();
  const auto interrupted = [&signals] {
    while (const std::optional<int> signal = signals->Next()) {
      if (LauncherSignals::EndsJob(*signal)) return true;
    }
    return false;
  };
  HZ_ASSIGN_OR_RETURN(Laboratory laboratory,
                      Laboratory::Up(options.file, options.name, interrupted));
  const Fabric& fabric = laboratory.fabric();
  std::printf("laboratory %s is up: %zu hosts, %zu switches, %zu links, %d explicit paths\n",
              laboratory.name().c_str(), fabric.Hosts().size(),
              fabric.nodes.size() - fabric.Hosts().size(), fabric.links.size(),
              fabric.explicit_paths);
  return Status::Ok();
}

Status Down(LaboratoryOptions options) {
  if (options.name.empty()) {
    const Result<std::string> only = Laboratory::TheOnlyName();
    if (only.status().code() == Code::kUnavailable) {
      std::printf("no laboratory is up\n");
      return Status::Ok();
    }
    if (!only.ok()) return only.status();
    options.name = *only;
  }
  HZ_ASSIGN_OR_RETURN(const bool there, Laboratory::Down(options.name));
  std::printf("laboratory %s %s\n", options.name.c_str(), there ? "is removed" : "was not up");
  return Status::Ok();
}

Status ShowStatus(const LaboratoryOptions& options) {
  HZ_ASSIGN_OR_RETURN(Laboratory laboratory, Laboratory::Open(options.name));
  HZ_ASSIGN_OR_RETURN(const std::string text,
                      options.json ? StatusJson(laboratory) : StatusTable(laboratory));
  std::fputs(text.c_str(), stdout);
  return Status::Ok();
}

}  // namespace

void AddLaboratoryCommands(CLI::App& app, CommandLine& command_line) {
  auto options = std::make_shared<LaboratoryOptions>();
  CLI::App* up = app.add_subcommand("up", "Make the fabric that a file describes");
  up->add_option("FILE", options->file, "A fabric file; docs/fabric-file.md has its schema")
      ->required();
  up->add_option("--name", options->name, "The laboratory's name (default: the fabric's)");
  up->footer(
      "Needs root. What a killed 'up' of the same name left behind is removed first; when "
      "this one fails, so is all that it made.");
  up->callback([options, &command_line] { command_line.exit_status = Finish(Up(*options)); });

  CLI::App* down = app.add_subcommand("down", "End all that runs in a laboratory, and remove it");
  AddNameOption(down, &options->name);
  down->footer("Works on what is half made, and when nothing is there.");
  down->callback([options, &command_line] { command_line.exit_status = Finish(Down(*options)); });

  CLI::App* status = app.add_subcommand("status", "Hosts, links and what they carried");
  AddNameOption(status, &options->name);
  status->add_flag("--json", options->json, "As JSON; rates in bytes a second");
  status->callback(
      [options, &command_line] { command_line.exit_status = Finish(ShowStatus(*options)); });
}

}  // namespace harmonaize::fabric
