#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize::fabric {

/// Adds `fabric up`, `fabric down` and `fabric status`.
void AddLaboratoryCommands(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize::fabric
