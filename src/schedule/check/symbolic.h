#pragma once

#include "src/base/status.h"
#include "src/schedule/ir/schedule.h"
#include "src/schedule/ir/step_graph.h"
#include "src/schedule/ir/storage.h"

namespace harmonaize {

/// What the symbolic execution saw beside that the result is right.
struct SymbolicOutcome {
  bool in_rank_order = true;  ///< Every reduction is a left fold from rank 0 on.
};

/// Executes the steps once, in graph.order(), on symbols: a block holds which input blocks went
/// into it. Proves that nothing is read before it is there and that every output block holds in the
/// end what the collective says, whichever ranks are in place. Since CheckRaces has passed, every
/// other legal order gives the same.
Result<SymbolicOutcome> ExecuteSymbolically(const Schedule& schedule, const Storage& storage,
                                            const StepGraph& graph);

}  // namespace harmonaize
