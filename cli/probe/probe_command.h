#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize {

/// Adds `harmonaize probe`. `command_line` must outlive the parsing.
void AddProbeCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
