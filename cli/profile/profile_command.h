#pragma once

namespace CLI {
class App;
}

namespace harmonaize {

struct CommandLine;

/// Adds `harmonaize profile`. `command_line` must outlive the parsing.
void AddProfileCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
