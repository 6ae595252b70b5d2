#pragma once

#include "src/base/collective.h"
#include "src/schedule/ir/outline.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// Returns the schedule of a collective whose ranks all share host 0. One process sees every rank's
/// buffers, so nothing travels: a reduction over n ranks is a single pass that reads n blocks and
/// writes as many as there are outputs, which is the least that any algorithm can do. `pieces` is
/// 1: the executor splits the elements over its workers by slicing.
///
/// Reductions combine in rank order, and are reduce steps even of one rank: a pre-multiplied sum of
/// a single contribution is not a copy of it. With `in_place`, the schedule is right whichever
/// ranks are in place; without it, only when none is. The two differ only for all-to-all, which
/// exchanges pairs of blocks in place and copies otherwise.
///
/// `ranks` > 0, except that a send has always 2 ranks and ignores the argument; kReceive gives the
/// same schedule as kSend. `root` is in range where HasRoot(collective), and ignored elsewhere.
Schedule OneHost(Collective collective, int ranks, int root, bool in_place);

/// Returns OneHost's outline for a problem whose ranks share a host of any number. Errors: they do
/// not share one.
OutlineResult MakeOneHost(const Problem& problem);

}  // namespace harmonaize
