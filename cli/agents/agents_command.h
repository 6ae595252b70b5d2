#pragma once

namespace CLI {
class App;
}

namespace harmonaize {

struct CommandLine;

/// Adds `harmonaize agents`. `command_line` must outlive the parsing.
void AddAgentsCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
