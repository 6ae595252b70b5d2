#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize {

/// Adds `harmonaize events`. `command_line` must outlive the parsing.
void AddEventsCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
