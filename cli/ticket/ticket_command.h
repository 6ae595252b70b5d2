#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize {

/// Adds `harmonaize ticket`. `command_line` must outlive the parsing.
void AddTicketCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
