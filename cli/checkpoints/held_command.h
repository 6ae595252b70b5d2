#pragma once

namespace CLI {
class App;
}

namespace harmonaize {

struct CommandLine;

/// Adds `checkpoints held`, which lists the checkpoints that daemons hold.
void AddHeldCheckpoints(CLI::App& checkpoints, CommandLine& command_line);

}  // namespace harmonaize
