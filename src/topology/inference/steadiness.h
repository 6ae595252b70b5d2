#pragma once

#include <vector>

#include "src/topology/inference/measurements.h"

namespace harmonaize {

/// What a fabric looks like, without its rates.
struct FabricShape {
  /// By plane: the hosts of each rack, as in Measurements::hosts.
  std::vector<std::vector<std::vector<int>>> racks;
  std::vector<int> ring;  ///< The hosts around it; empty: it is none.
};

/// What was measured several times is divided into this many parts, by when it was.
inline constexpr int kSteadinessParts = 3;

/// The shape that is found without each of the parts (the jackknife of Quenouille, 1949): where a
/// network or a machine was busy with something else in some of them, shapes differ. Empty where
/// nothing was measured more than once.
std::vector<FabricShape> ShapesWithoutParts(const Measurements& measurements);

}  // namespace harmonaize
