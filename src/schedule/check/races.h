#pragma once

#include "src/base/status.h"
#include "src/schedule/ir/step_graph.h"
#include "src/schedule/ir/storage.h"

namespace harmonaize {

/// Proves that every two steps that touch the same memory are ordered, unless both only read it,
/// and that no step writes a block twice. Blocks that are the same memory in place count as the
/// same.
Status CheckRaces(const Storage& storage, StepGraph& graph);

}  // namespace harmonaize
