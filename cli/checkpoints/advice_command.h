#pragma once

namespace CLI {
class App;
}

namespace harmonaize {

struct CommandLine;

/// Adds `checkpoints advice`, which shows when a job should save, and why.
void AddCheckpointAdvice(CLI::App& checkpoints, CommandLine& command_line);

/// Adds `checkpoints save`, which advises a job to save now.
void AddCheckpointSave(CLI::App& checkpoints, CommandLine& command_line);

}  // namespace harmonaize
