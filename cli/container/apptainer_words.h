#pragma once

#include "cli/container/container_command.h"
#include "cli/container/injected.h"
#include "src/base/status.h"

namespace harmonaize {

// apptainer and singularity. A variable APPTAINERENV_NAME, or SINGULARITYENV_NAME, of the client
// becomes NAME in the container, whatever else of the environment is kept from it.

/// Returns the command with what is handed in. Errors: kInvalidUsage for an LD_PRELOAD that would
/// be lost.
Result<RankProgram> ApptainerProgram(const ContainerCommand& command, const Injected& injected);

}  // namespace harmonaize
