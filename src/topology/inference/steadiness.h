#pragma once

#include <vector>

#include "src/topology/inference/measurements.h"

namespace harmonaize {

/// The structure of a fabric without its rates.
struct FabricShape {
  /// By plane: the hosts of each rack, as in Measurements::hosts.
  std::vector<std::vector<std::vector<int>>> racks;
  std::vector<int> ring;  ///< Hosts around the ring; empty: there is none.
};

/// Number of parts, by time, into which repeated measurements are divided.
inline constexpr int kSteadinessParts = 3;

/// Returns the shapes found without each of the parts (the jackknife of Quenouille, 1949). If a
/// network or a machine was busy with something else in some of them, shapes differ. Empty if
/// nothing was measured more than once.
std::vector<FabricShape> ShapesWithoutParts(const Measurements& measurements);

}  // namespace harmonaize
