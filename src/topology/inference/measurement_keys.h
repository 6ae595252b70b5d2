#pragma once

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "src/topology/inference/measurements.h"

namespace harmonaize {

/// Host and NIC of both ends, the smaller first: round trips stand for both directions.
using NicPair = std::pair<std::pair<int, int>, std::pair<int, int>>;

inline NicPair PairOf(Endpoint a, Endpoint b) {
  return std::minmax(std::pair(a.host, a.nic), std::pair(b.host, b.nic));
}

/// Identifies a transfer: from, to, and the number of connections.
using TransferKey = std::tuple<int, int, int, int, int>;

/// Returns the key of a transfer that is requested, or was measured.
template <typename Transfer>
TransferKey KeyOf(const Transfer& one) {
  return {one.from.host, one.from.nic, one.to.host, one.to.nic, one.connections};
}

/// Returns the key of a set of transfers, whatever their order.
template <typename Transfer>
std::vector<TransferKey> KeyOfSet(const std::vector<Transfer>& set) {
  std::vector<TransferKey> key;
  for (const Transfer& one : set) key.push_back(KeyOf(one));
  std::sort(key.begin(), key.end());
  return key;
}

}  // namespace harmonaize
