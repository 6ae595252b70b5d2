#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize {

/// Adds `harmonaize token`. `command_line` must outlive the parsing.
void AddTokenCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
