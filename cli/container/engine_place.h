#pragma once

#include "cli/container/container_command.h"
#include "cli/run/environment.h"
#include "src/base/status.h"

namespace harmonaize {

/// Checks that the containers of docker or podman run on this host: a client may speak with an
/// engine of another one, which has neither this host's files nor its daemon. `of_client` is the
/// client's environment. Errors: kInvalidUsage, with the engine's address and the way out.
Status CheckEngineIsHere(const ContainerCommand& command, const Environment& of_client);

}  // namespace harmonaize
