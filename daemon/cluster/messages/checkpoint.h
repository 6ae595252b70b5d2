#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// Messages about checkpoints that ranks save in memory (daemon/checkpoint).

/// To the home of a communicator: a rank's part of a round is in memory.
struct PartSavedMessage {
  static constexpr MessageKind kKind = MessageKind::kPartSaved;
  uint64_t about = 0;  ///< Key of the communicator.
  int rank = 0;
  uint64_t round = 0;
  uint64_t step = 0;
  uint64_t bytes = 0;
};

/// From the home of a communicator to its hosts: all ranks have their parts of a round, or no round
/// becomes complete any more.
struct RoundCompleteMessage {
  static constexpr MessageKind kKind = MessageKind::kRoundComplete;
  uint64_t about = 0;  ///< Key of the communicator.
  uint64_t round = 0;  ///< The newest complete one; 0: none.
  uint64_t step = 0;
  Status status{};  ///< Why no further round becomes complete, or OK.
};

/// Most bytes of a choice.
inline constexpr size_t kMostChoiceBytes = 512;

/// What rank 0 of a communicator has chosen for all ranks (ChoiceBoard): to the home, and from
/// there to the communicator's hosts.
struct ChoiceMessage {
  static constexpr MessageKind kKind = MessageKind::kChoice;
  uint64_t about = 0;   ///< Key of the communicator.
  uint64_t number = 0;  ///< Of the choice, from 1 on.
  std::vector<uint8_t> choice{};
};

using CheckpointMessage = std::variant<PartSavedMessage, RoundCompleteMessage, ChoiceMessage>;

}  // namespace harmonaize::daemon
