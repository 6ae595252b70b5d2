#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize::fabric {

/// Adds `fabric probe`, which shows the fabric as seen from its hosts, beside its file.
void AddProbeCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize::fabric
