#include "src/client/inline/turns.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace harmonaize {
namespace {

/// Returns the operation's lane in its communicator: 0 for collectives, and two for each peer.
int64_t LaneOf(const Operation& operation) {
  if (!IsPointToPoint(operation.collective)) return 0;
  return 1 + 2 * int64_t{operation.root} + (operation.collective == Collective::kSend ? 0 : 1);
}

}  // namespace

Turns Turns::Of(std::span<const Operation* const> operations) {
  Turns result;
  std::map<std::pair<const Communicator*, int64_t>, uint32_t> lengths;
  for (const Operation* operation : operations) {
    result.turns.push_back(lengths[{operation->communicator, LaneOf(*operation)}]++);
  }
  result.lanes = lengths.size();
  result.order.resize(operations.size());
  std::iota(result.order.begin(), result.order.end(), size_t{0});
  std::stable_sort(result.order.begin(), result.order.end(),
                   [&](size_t a, size_t b) { return result.turns[a] < result.turns[b]; });
  return result;
}

}  // namespace harmonaize
