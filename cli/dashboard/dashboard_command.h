#pragma once

#include "cli/command_line.h"

namespace harmonaize {

/// Adds `harmonaize dashboard`: the status page of the host's daemon in a browser.
void AddDashboardCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
