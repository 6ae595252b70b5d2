#pragma once

#include "src/schedule/ir/outline.h"

namespace harmonaize {

/// Gather and scatter: every rank's block goes straight to the root's host, or comes from there, in
/// `pieces` pieces. The first pieces of all hosts go before the second ones, so all hosts send or
/// receive side by side.
OutlineResult MakeGatherScatter(const Problem& problem, int pieces);

}  // namespace harmonaize
