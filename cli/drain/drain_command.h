#pragma once

namespace CLI {
class App;
}

namespace harmonaize {

struct CommandLine;

/// Adds `harmonaize drain`, by which operators empty a host of jobs without ending them.
void AddDrainCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
