#pragma once

#include "src/base/status.h"
#include "src/schedule/ir/schedule.h"
#include "src/schedule/ir/step_graph.h"
#include "src/schedule/ir/storage.h"

namespace harmonaize {

/// Results of the symbolic execution beside the proof.
struct SymbolicOutcome {
  bool in_rank_order = true;  ///< Every reduction is a left fold from rank 0 on.
};

/// Executes the steps once, in graph.order(), on symbols: a block holds the input blocks that went
/// into it. Proves that nothing is read before it is there, and that at the end every output block
/// holds what the collective defines, whichever ranks are in place. Requires: CheckRaces has
/// passed, so every other legal order gives the same.
Result<SymbolicOutcome> ExecuteSymbolically(const Schedule& schedule, const Storage& storage,
                                            const StepGraph& graph);

}  // namespace harmonaize
