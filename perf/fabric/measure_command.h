#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize::fabric {

/// Adds `fabric measure` and `fabric check`, which tell how much gets through, and whether anything
/// does.
void AddMeasureCommands(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize::fabric
