#pragma once

#include <array>
#include <string_view>

#include "src/base/status.h"
#include "src/topology/fabric/fabric.h"

namespace harmonaize {

/// Returns the link that people call "leaf0-spine1" by its name, or "leaf0,spine1" by the two
/// nodes, if it alone joins them. Errors: kInvalidArgument with the nearest name, or with how many
/// links there are.
Result<int> LinkNamed(const Fabric& fabric, std::string_view text);

/// A link with other rates, as people write it: "leaf0-spine1=100Mbit" for both directions,
/// "leaf0-spine1=100Mbit,500Mbit" for forth and back.
struct StatedRates {
  int link = -1;
  std::array<double, 2> bytes_per_second{};
};
Result<StatedRates> ParseStatedRates(const Fabric& fabric, std::string_view text);

}  // namespace harmonaize
