#pragma once

#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "src/executor/host/machine.h"
#include "src/topology/host/host.h"

namespace harmonaize::daemon {

/// Returns where each of `workers` threads may run. The nodes get workers in proportion to their
/// processors. One worker after the other goes to another node, so that any first few of them are
/// spread. Within a node:
///  - kPlaceOnNodes: on any of its processors, as the kernel likes;
///  - kPlaceOnProcessors: on one processor; second threads of a core come after all cores.
/// kPlaceFreely, and one node with kPlaceByHost: anywhere, and nobody knows near what memory.
std::vector<WorkerPlace> PlaceWorkers(const Host& host, int workers, const std::string& placement);

/// Returns where each of `workers` threads may run if the configuration names `processors`: on one
/// of these, in turn.
std::vector<WorkerPlace> PlaceWorkersOn(const Host& host, int workers,
                                        const std::vector<int64_t>& processors);

}  // namespace harmonaize::daemon
