#pragma once

namespace CLI {
class App;
}

namespace harmonaize {

struct CommandLine;

/// Adds `harmonaize elasticity`, which shows operators how the sizes of elastic jobs follow the
/// load, and takes the jobs that wait.
void AddElasticityCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
