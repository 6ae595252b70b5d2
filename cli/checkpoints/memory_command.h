#pragma once

namespace CLI {
class App;
}

namespace harmonaize {

struct CommandLine;

/// Adds `checkpoints memory`, which lists the checkpoints that daemons have in memory.
void AddCheckpointsInMemory(CLI::App& checkpoints, CommandLine& command_line);

}  // namespace harmonaize
