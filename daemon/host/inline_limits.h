#pragma once

#include <array>
#include <cstdint>

#include "daemon/config/config.h"
#include "src/base/collective.h"
#include "src/planner/inline_choice.h"

namespace harmonaize::daemon {

/// Up to which size the operations of one communicator go inline, in bytes of one block; see
/// InlineSteering.
struct InlineLimits {
  // By collective.
  std::array<uint64_t, kCollectiveCount> registered{};
  std::array<uint64_t, kCollectiveCount> heap{};
  uint64_t stream = 0;
};

/// What the configuration says, and where it leaves that open, what the choice does. `ranks` are
/// those of the communicator.
InlineLimits InlineLimitsFor(const InlineConfig& config, const InlineChoice& choice, int ranks);

}  // namespace harmonaize::daemon
