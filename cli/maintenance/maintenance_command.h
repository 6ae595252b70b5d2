#pragma once

namespace CLI {
class App;
}

namespace harmonaize {

struct CommandLine;

/// Adds `harmonaize maintenance`, by which operators announce maintenance to jobs.
void AddMaintenanceCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
