#pragma once

namespace CLI {
class App;
}

namespace harmonaize {

struct CommandLine;

/// Adds `harmonaize promises`, which shows what notice was promised, and what was kept.
void AddPromisesCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
