#pragma once

#include <cstdint>
#include <span>

#include "src/client/operation/operation.h"

namespace harmonaize {

/// Result of TryQuickly.
struct QuickAttempt {
  enum class State {
    kUntried,  ///< Nothing was done: the operations take the general way.
    kPosted,   ///< The other ranks know of all operations; InlineLaunch continues from there.
    kDone,
  };
  State state = State::kUntried;
  /// kPosted: bit i is set when operation i is done.
  uint32_t done = 0;
};

/// Carries out small operations that stand by themselves on the inline path, in the shortest way.
/// These are one collective, or a group of a few sends and receives, without a stream, of a
/// blocking caller, with data that fits one piece and is too little to go directly. It does what
/// InlineOperation would do, in one go and without its state, because instructions are what a small
/// operation costs. Anything irregular is left to the general way: a late rank, one that withdraws,
/// ranks that disagree.
QuickAttempt TryQuickly(std::span<const Operation> operations);

}  // namespace harmonaize
