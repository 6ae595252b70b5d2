#pragma once

#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/ipc/tuning_segment.h"
#include "src/planner/cost_model.h"
#include "src/planner/fabric_model.h"

namespace harmonaize {

// What the provider advises stock NCCL about algorithms, protocols and channels. NCCL predicts
// times from what it saw of the machine when a communicator began, and knows nothing of what links
// carry now. So the planner predicts each kind of schedule twice, for what the fabric states and
// for what links carry now, and NCCL's times are multiplied by the ratio (docs/nccl-tuner.md).

/// Schedules that load a network alike, and NCCL's algorithms that are of the kind.
enum class TuningFamily {
  kRing = 0,     ///< Ring.
  kTree,         ///< Tree and NVLS tree, by the double binary tree.
  kLogarithmic,  ///< PAT, by the circulant algorithm.
};
inline constexpr int kTuningFamilies = 3;
/// Returns "ring", "tree" or "logarithmic".
std::string_view TuningFamilyName(TuningFamily family);

/// The advice for the collectives and sizes of a TuningTable. Lists are by function, then size.
struct TuningAdvice {
  /// Seconds now by stated seconds, divided by the least such ratio of the same collective and
  /// size; 1 to kMostTuningFactor. By function, size, family and protocol.
  std::vector<double> factors = {};
  /// Most channels that are of use; 0: as many as NCCL likes.
  std::vector<int> channels = {};
  /// The TuningFamily that is fastest by far now, and was not before; -1: none.
  std::vector<int> families = {};

  bool operator==(const TuningAdvice&) const = default;
};

/// Largest factor. Of what takes a thousand times as long NCCL chooses nothing, so larger ones
/// would change no choice.
inline constexpr double kMostTuningFactor = 1000;

/// Returns the advice that changes nothing.
TuningAdvice NoTuningAdvice();
/// Returns whether all lists have their lengths, and all values are in their range.
bool IsSoundAdvice(const TuningAdvice& advice);
/// Returns the table for NCCL's tuner. Requires: IsSoundAdvice.
TuningTable TableOf(const TuningAdvice& advice);
/// Returns how many times as long a call by one advice may take as by the other, at least 1.
double DifferenceOf(const TuningAdvice& one, const TuningAdvice& other);

/// Returns the advice for a communicator on these hosts of both models, which are the same fabric
/// as stated and as links are now. One rank of each host is counted: a schedule of NCCL's crosses a
/// host's links once for all its ranks. Errors: fewer than two hosts, or those of Planner::Make.
Result<TuningAdvice> AdviseTuning(const FabricModel& stated, const FabricModel& now,
                                  const std::vector<int>& hosts, const NetworkCosts& costs);

}  // namespace harmonaize
