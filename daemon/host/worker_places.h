#pragma once

#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "src/executor/host/machine.h"
#include "src/topology/host/host.h"

namespace harmonaize::daemon {

/// Where each of `workers` threads may run. The nodes get as many as they have processors in
/// proportion, and one worker after the other goes to another node, so that any first few of them
/// are spread. Within a node:
///  - kPlaceOnNodes: on any of its processors, as the kernel likes;
///  - kPlaceOnProcessors: on one processor; second threads of a core come after all cores.
/// kPlaceFreely, and one node with kPlaceByHost: anywhere, and nobody knows near what memory.
std::vector<WorkerPlace> PlaceWorkers(const Host& host, int workers, const std::string& placement);

/// The same on processors that the configuration names, in turn.
std::vector<WorkerPlace> PlaceWorkersOn(const Host& host, int workers,
                                        const std::vector<int64_t>& processors);

}  // namespace harmonaize::daemon
