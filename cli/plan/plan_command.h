#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize {

/// `harmonaize plan`: what the planner would do on a fabric, without a cluster.
void AddPlanCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
