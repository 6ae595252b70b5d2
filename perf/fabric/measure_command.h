#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize::fabric {

/// `fabric measure` and `fabric check`: what goes through, and whether anything does.
void AddMeasureCommands(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize::fabric
