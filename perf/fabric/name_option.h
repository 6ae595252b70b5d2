#pragma once

#include <string>

namespace CLI {
class App;
}

namespace harmonaize::fabric {

/// Adds --name to a subcommand that works on a laboratory that is up.
void AddNameOption(CLI::App* command, std::string* name);

}  // namespace harmonaize::fabric
