#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize {

/// Adds `harmonaize plan`, which shows the planner's choices for a fabric, without a cluster.
void AddPlanCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
