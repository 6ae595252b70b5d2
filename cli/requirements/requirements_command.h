#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize {

/// Adds `harmonaize requirements`, which checks what a tenant says of a job, and explains it.
void AddRequirementsCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
