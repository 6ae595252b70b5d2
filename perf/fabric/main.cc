#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "perf/fabric/disturb_command.h"
#include "perf/fabric/generate_command.h"
#include "perf/fabric/laboratory_commands.h"
#include "perf/fabric/measure_command.h"
#include "perf/fabric/probe_command.h"
#include "perf/fabric/run_command.h"

namespace {

constexpr char kDescription[] =
    "fabric: a laboratory of emulated hosts and switches on this machine. Hosts are network "
    "namespaces, links are shaped; daemons and jobs run in it as on a cluster. Needs root.";

constexpr char kFooter[] =
    "Examples:\n"
    "  fabric up perf/fabric/fabrics/two-racks.toml\n"
    "  fabric check\n"
    "  fabric measure host0 host2 --path 1\n"
    "  fabric run --hosts host0:2 -- all_reduce_perf -b 8 -e 16M -f 4\n"
    "  fabric disturb link-down leaf0-spine0\n"
    "  fabric generate fat-tree --hosts 1024\n"
    "  fabric status\n"
    "  fabric down\n"
    "\n"
    "'fabric COMMAND --help' says more of each command; docs/laboratory.md is a guide.";

}  // namespace

int main(int argc, char** argv) {
  harmonaize::OpenStandardStreams();
  CLI::App app(kDescription, "fabric");
  app.footer(kFooter);
  app.require_subcommand(1);

  harmonaize::CommandLine command_line;
  const std::vector<std::string> head = harmonaize::SplitAtDashes(argc, argv, &command_line);
  harmonaize::fabric::AddLaboratoryCommands(app, command_line);
  harmonaize::fabric::AddRunCommands(app, command_line);
  harmonaize::fabric::AddMeasureCommands(app, command_line);
  harmonaize::fabric::AddProbeCommand(app, command_line);
  harmonaize::fabric::AddDisturbCommand(app, command_line);
  harmonaize::fabric::AddGenerateCommand(app, command_line);

  try {
    // CLI11 takes its arguments from the back.
    app.parse(std::vector<std::string>(head.rbegin(), head.rend()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : harmonaize::kUsageStatus;
  }
  return command_line.exit_status;
}
