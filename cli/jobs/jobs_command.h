#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize {

/// Adds `harmonaize jobs`. `command_line` must outlive the parsing.
void AddJobsCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
