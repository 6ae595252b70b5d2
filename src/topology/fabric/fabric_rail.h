#pragma once

#include <compare>
#include <cstddef>

namespace harmonaize {

/// A rail from one host of the fabric to another.
struct FabricRail {
  int from = 0;
  int to = 0;
  size_t rail = 0;
  auto operator<=>(const FabricRail&) const = default;
};

}  // namespace harmonaize
