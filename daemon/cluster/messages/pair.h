#pragma once

#include <cstdint>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/base/status.h"
#include "src/numerics/types.h"

namespace harmonaize::daemon {

// Messages about sends and receives, and about pipes, between the hosts of a sender and a receiver.

/// The n-th send of a pair of ranks is on its way. A status that is not ok says why it will not
/// come after all.
struct OfferMessage {
  static constexpr MessageKind kKind = MessageKind::kOffer;
  uint64_t communicator = 0;
  int from = 0;
  int to = 0;
  uint64_t number = 0;
  uint64_t count = 0;
  DataType type = DataType::kInt8;
  Status status{};
};

/// The receive for a send is there. A status that is not ok says why it is not, or does not fit.
struct AnswerMessage {
  static constexpr MessageKind kKind = MessageKind::kAnswer;
  uint64_t communicator = 0;
  int from = 0;
  int to = 0;
  uint64_t number = 0;
  Status status{};
};

/// A rank has begun to send or receive in pipes to a rank of the receiver's host. Answered by
/// PipesClosedMessage, when all have ended there.
struct PipesOpenedMessage {
  static constexpr MessageKind kKind = MessageKind::kPipesOpened;
  uint64_t communicator = 0;
  int from = 0;
  int to = 0;
};

/// A rank has closed its end of a pipe to a rank of the receiver's host, or of all pipes for good.
struct PipesClosedMessage {
  static constexpr MessageKind kKind = MessageKind::kPipesClosed;
  uint64_t communicator = 0;
  int from = 0;
  int to = 0;
  uint32_t pipe = 0;
  bool all = false;    ///< All pipes; `pipe` means nothing.
  uint64_t notes = 0;  ///< Messages of notes that were sent before. They come first.
};

using PairMessages =
    MessageList<OfferMessage, AnswerMessage, PipesOpenedMessage, PipesClosedMessage>;

}  // namespace harmonaize::daemon
