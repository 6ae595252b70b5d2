#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/container/option_words.h"
#include "src/base/status.h"

namespace harmonaize {

/// Kind of a container runtime, by how its command line reads.
enum class RuntimeKind {
  kDocker,     ///< docker, podman and nerdctl.
  kApptainer,  ///< apptainer and singularity.
  kBubblewrap  ///< bwrap
};

/// A command line that starts a program in a container, taken apart.
struct ContainerCommand {
  std::vector<std::string> words;
  RuntimeKind kind = RuntimeKind::kDocker;
  std::string program;               ///< "docker", without the folder that it was named with.
  std::string verb;                  ///< "run", "exec", "instance start"; "" for bwrap.
  std::vector<GivenOption> general;  ///< Options before the verb.
  std::vector<GivenOption> options;  ///< Options of the verb.
  size_t verb_begin = 0;             ///< The verb's first word.
  size_t verb_end = 0;               ///< The word behind the verb, where more options can go.
  size_t options_end = 0;            ///< The image or the program, or the "--" before it.

  /// Returns whether it runs a program in a container that is there already, which takes variables
  /// and no mounts.
  bool EntersRunning() const { return kind == RuntimeKind::kDocker && verb == "exec"; }
  /// Returns whether the command ends before its container does, or does not start it.
  bool LeavesContainer() const;
};

/// Takes a command line apart by the name of its program. Errors: kInvalidUsage for a program that
/// is no container runtime known here, and for a subcommand that runs no program, with the way out.
Result<ContainerCommand> ReadContainerCommand(std::vector<std::string> words);

}  // namespace harmonaize
