#pragma once

namespace CLI {
class App;
}

namespace harmonaize {

struct CommandLine;

/// Adds `harmonaize checkpoints`, whose subcommands are about a job's checkpoints.
void AddCheckpointsCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
