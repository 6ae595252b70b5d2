#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/ipc/session_segment.h"

namespace harmonaize::daemon {

/// An operation that a rank asked for.
struct RankAsked {
  int rank = 0;
  OperationDescriptor descriptor;
};

/// Ranks that disagree about an operation, and what each asked for.
struct Mismatch {
  uint64_t sequence = 0;
  /// By rank; nothing if it is not known any more.
  std::vector<RankAsked> asked = {};

  /// Returns kInvalidUsage, with what the first ranks asked for.
  Status AsError() const;
};

/// Returns whether all of these ask for the same operation.
bool AllAgree(const std::vector<RankAsked>& asked);

}  // namespace harmonaize::daemon
