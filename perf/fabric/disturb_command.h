#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize::fabric {

/// Adds `fabric disturb ...`, which makes a fabric fail on purpose.
void AddDisturbCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize::fabric
