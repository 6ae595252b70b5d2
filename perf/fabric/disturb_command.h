#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize::fabric {

/// `fabric disturb ...`: what goes wrong in a fabric, on purpose.
void AddDisturbCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize::fabric
