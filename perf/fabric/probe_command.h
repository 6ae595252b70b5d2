#pragma once

#include "cli/command_line.h"

namespace CLI {
class App;
}

namespace harmonaize::fabric {

/// `fabric probe`: what the fabric looks like from its hosts, beside what its file says.
void AddProbeCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize::fabric
