#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize {

/// Adds `harmonaize completion`, and the hidden `harmonaize complete` that shells call by it. `app`
/// and `command_line` must outlive the parsing.
void AddCompletionCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
