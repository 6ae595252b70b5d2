#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize::fabric {

/// Adds `fabric generate`, which makes fabric files of any size, for planners and simulators.
void AddGenerateCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize::fabric
