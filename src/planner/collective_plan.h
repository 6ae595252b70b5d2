#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/collective.h"
#include "src/base/status.h"
#include "src/planner/fabric_model.h"
#include "src/planner/rated_models.h"

namespace harmonaize {

/// What a plan is for.
struct PlanKey {
  Collective collective = Collective::kAllReduce;
  int root = -1;       ///< -1: a collective without one.
  int size_class = 0;  ///< Index into SizeClasses().

  auto operator<=>(const PlanKey&) const = default;
};

/// By what plan a collective of one size class is carried out: all that each host needs to make its
/// part of it. Host numbers are the fabric's.
struct CollectivePlan {
  PlanKey key{};
  std::string algorithm{};
  std::vector<int> order{};
  std::string order_name{};
  std::vector<std::vector<int>> groups{};
  std::string groups_name{};
  int pieces = 1;
  uint64_t slice_bytes = 1;  ///< Bytes of a block that are under way as one message.
  int slices_at_once = 1;    ///< Messages of a block that are under way at a time.
  PathUse paths = PathUse::kEcmp;
  EdgeRates rates{};  ///< The rates that it is made for, where they are not the fabric's.
  double predicted_seconds = 0;
  double bound_seconds = 0;
  Status status{};  ///< Not ok: there is no plan, for this reason.
};

}  // namespace harmonaize
