#pragma once

#include <string>
#include <vector>

#include "cli/container/container_command.h"
#include "cli/container/injected.h"
#include "src/base/status.h"

namespace harmonaize {

// An LD_PRELOAD that the user gives a container stays in force behind the library that is handed
// in.

/// Puts the library before the value of LD_PRELOAD that an option of the user sets, in the word
/// where it stands; leaves options alone that set other variables.
void AddToGivenPreload(const GivenOption& option, const Injected& injected,
                       std::vector<std::string>& words);

/// Checks that no file of --env-file sets LD_PRELOAD. Errors: kInvalidUsage for one that does, with
/// the way out.
Status CheckEnvironmentFiles(const ContainerCommand& command);

}  // namespace harmonaize
