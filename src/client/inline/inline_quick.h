#pragma once

#include <cstdint>
#include <span>

#include "src/client/operation/operation.h"

namespace harmonaize {

/// How far TryQuickly got.
struct QuickAttempt {
  enum class State {
    kUntried,  ///< Nothing was done: the operations take the general way.
    kPosted,   ///< The other ranks know of all of them; InlineLaunch goes on from there.
    kDone,
  };
  State state = State::kUntried;
  /// kPosted: bit i is set when operation i is done.
  uint32_t done = 0;
};

/// The short way through the inline path, for operations that are small and stand by themselves:
/// one collective, or a group of a few sends and receives; no stream, a blocking caller, and data
/// that fits one piece and is too little to go directly. It does what InlineOperation would do, in
/// one go and without its state, because what a small operation costs is instructions. Whatever
/// does not go smoothly is left to the general way: a late rank, one that withdraws, ranks that
/// disagree.
QuickAttempt TryQuickly(std::span<const Operation> operations);

}  // namespace harmonaize
