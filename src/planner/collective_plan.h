#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/collective.h"
#include "src/base/status.h"
#include "src/numerics/wire_format.h"
#include "src/planner/fabric_model.h"
#include "src/planner/rated_models.h"

namespace harmonaize {

/// Names what a plan is for: a collective, its root and its size class.
struct PlanKey {
  Collective collective = Collective::kAllReduce;
  int root = -1;       ///< -1: a collective without one.
  int size_class = 0;  ///< Index into SizeClasses().

  auto operator<=>(const PlanKey&) const = default;
};

/// The plan for a collective of one size class: all that each host needs to make its part of the
/// schedule. Host numbers are the fabric's.
struct CollectivePlan {
  PlanKey key{};
  std::string algorithm{};
  std::vector<int> order{};
  std::string order_name{};
  std::vector<std::vector<int>> groups{};
  std::string groups_name{};
  int pieces = 1;
  uint64_t slice_bytes = 1;  ///< Bytes of a block that go as one message, before any encoding.
  int slices_at_once = 1;    ///< Messages of one block that may be under way at a time.
  /// Format of sums of floats on the wire (WireFormatFor); kSame unless the collective reduces.
  WireFormat wire = WireFormat::kSame;
  PathUse paths = PathUse::kEcmp;
  EdgeRates rates{};  ///< Rates that the plan is made for, of the edges that do not carry what the
                      ///< fabric states.
  double predicted_seconds = 0;
  double bound_seconds = 0;
  Status status{};  ///< If not ok, the reason why there is no plan.
};

/// Returns whether hosts carry a collective out in the same way by either plan.
inline bool CarriesOutAlike(const CollectivePlan& one, const CollectivePlan& other) {
  return one.algorithm == other.algorithm && one.order == other.order &&
         one.groups == other.groups && one.pieces == other.pieces &&
         one.slice_bytes == other.slice_bytes && one.slices_at_once == other.slices_at_once &&
         one.paths == other.paths && one.wire == other.wire;
}

}  // namespace harmonaize
