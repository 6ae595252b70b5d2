#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "daemon/checkpoint/choice_board.h"
#include "daemon/cluster/messages/checkpoint.h"
#include "daemon/cluster/messages/message.h"
#include "src/base/status.h"
#include "src/transport/message.h"

namespace harmonaize::daemon {

class Communicator;
class CommunicatorRegistry;

/// Carries what rank 0 of a communicator has chosen for all ranks to their hosts. Thread: engine.
class RankChoices {
 public:
  /// `communicators` outlives this object.
  explicit RankChoices(const CommunicatorRegistry* communicators) : communicators_(communicators) {}

  /// Tells all ranks of a communicator what its rank 0, which is of this host, has chosen.
  void Post(Communicator& communicator, std::string choice);
  /// Returns the next choice for a rank of this host; nullopt if it has not been made. Errors:
  /// those of ChoiceBoard::Hear; the communicator's failure.
  Result<std::optional<std::string>> Hear(const Communicator& communicator, int rank);

  void OnMessage(transport::PeerId peer, const ChoiceMessage& message);
  void OnEnded(const Communicator& communicator);

 private:
  const CommunicatorRegistry* const communicators_;
  std::map<uint64_t, ChoiceBoard> boards_;  ///< By Communicator::id.
};

}  // namespace harmonaize::daemon
