#pragma once

namespace CLI {
class App;
}

namespace harmonaize {

struct CommandLine;

/// Adds `harmonaize offers`, which lists offers.
void AddOffersCommand(CLI::App& app, CommandLine& command_line);
/// Adds `harmonaize offer`, by which operators make offers and tenants answer them.
void AddOfferCommand(CLI::App& app, CommandLine& command_line);

}  // namespace harmonaize
