#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize::fabric {

/// Adds `fabric exec`, `fabric run` and `fabric serve`, which run programs within the laboratory.
void AddRunCommands(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize::fabric
