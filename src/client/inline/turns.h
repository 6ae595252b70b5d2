#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/client/operation/operation.h"

namespace harmonaize {

/// The order in which the operations of a group are posted if the daemon has no room for all of
/// them at the same time.
///
/// The operations of a group may start in any order, except for those that the ranks count alike.
/// These form a lane: the collectives of a communicator; the sends, or the receives, between two
/// ranks. An operation's turn is its place in its lane. All operations of a turn are posted before
/// any of the next turn. Thus the operation with the lowest turn of all ranks finds room
/// everywhere, as long as each rank has room for one operation of each lane.
struct Turns {
  std::vector<size_t> order;    ///< Places in the group, by turn.
  std::vector<uint32_t> turns;  ///< By place in the group.
  size_t lanes = 0;

  static Turns Of(std::span<const Operation* const> operations);
};

}  // namespace harmonaize
