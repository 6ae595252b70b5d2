#pragma once

#include "cli/container/container_command.h"
#include "cli/container/injected.h"
#include "src/base/status.h"

namespace harmonaize {

// docker, podman and nerdctl. Their client passes none of its environment on: a variable is named
// on the command line, with its value or to be taken from the client's environment. What is handed
// in goes before the user's own options, of which the last one decides.

/// Returns the command with what is handed in. Errors: kInvalidUsage for an LD_PRELOAD that would
/// be lost.
Result<RankProgram> DockerProgram(const ContainerCommand& command, const Injected& injected);

/// Returns whether the container gets the host's network, in which its rank reaches the others: the
/// user's own options name none.
bool AddsHostNetwork(const ContainerCommand& command, const Injected& injected);

}  // namespace harmonaize
