#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize {

/// Adds `harmonaize run`. `command_line` must outlive the parsing.
void AddRunCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
