#include "cli/checkpoints/checkpoints_command.h"

#include <CLI/CLI.hpp>

#include "cli/checkpoints/advice_command.h"
#include "cli/checkpoints/held_command.h"
#include "cli/checkpoints/store_commands.h"
#include "cli/command_line.h"

namespace harmonaize {
namespace {

constexpr char kDescription[] =
    "Show when jobs should save, and list, verify and export what they have saved.";

constexpr char kFooter[] =
    R"(Examples:
  harmonaize checkpoints advice llama
  harmonaize checkpoints save llama
  harmonaize checkpoints held llama
  harmonaize checkpoints list /data/llama
  harmonaize checkpoints verify /data/llama
  harmonaize checkpoints export /data/llama llama-hf --format safetensors)";

}  // namespace

void AddCheckpointsCommand(CLI::App& app, CommandLine& command_line) {
  CLI::App* const checkpoints = app.add_subcommand("checkpoints", kDescription);
  checkpoints->footer(kFooter);
  checkpoints->require_subcommand(1);
  AddCheckpointAdvice(*checkpoints, command_line);
  AddCheckpointSave(*checkpoints, command_line);
  AddHeldCheckpoints(*checkpoints, command_line);
  AddCheckpointStores(*checkpoints, command_line);
}

}  // namespace harmonaize
