#pragma once

namespace CLI {
class App;
}

namespace harmonaize {

struct CommandLine;

/// Adds the subcommands of `harmonaize checkpoints` that look into a store's folder: list, show,
/// verify and export. They need no daemon.
void AddCheckpointStores(CLI::App& checkpoints, CommandLine& command_line);

}  // namespace harmonaize
