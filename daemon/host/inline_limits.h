#pragma once

#include <array>
#include <cstdint>

#include "daemon/config/config.h"
#include "src/base/collective.h"
#include "src/planner/inline_choice.h"

namespace harmonaize {
class CommunicatorTerms;
}  // namespace harmonaize

namespace harmonaize::daemon {

/// Largest operations of one communicator that go inline, in bytes of one block; see
/// InlineSteering.
struct InlineLimits {
  // By collective.
  std::array<uint64_t, kCollectiveCount> registered{};
  std::array<uint64_t, kCollectiveCount> heap{};
  uint64_t stream = 0;
  bool none = false;  ///< Nothing goes inline, not even an operation without data.
};

/// The largest block that goes inline on a host stream where processors are left over, in bytes. A
/// larger one is carried by the daemon there, while the caller goes on with other work.
inline constexpr uint64_t kOverlappedBytes = 256 << 10;

/// Returns the limits of the configuration, or those of `choice` where the configuration leaves
/// them open. `ranks` is the number of ranks of the communicator.
InlineLimits InlineLimitsFor(const InlineConfig& config, const InlineChoice& choice, int ranks);

/// Lowers limits to what a job wants to go inline on a communicator. A collective of which some
/// sizes are not to go inline goes inline below the least of them.
void LimitInline(const CommunicatorTerms& terms, int ranks, InlineLimits* limits);

}  // namespace harmonaize::daemon
