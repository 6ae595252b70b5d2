#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize {

/// Adds the hidden `harmonaize manual`, by which a build makes the manual pages. `app` and
/// `command_line` must outlive the parsing.
void AddManualCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
