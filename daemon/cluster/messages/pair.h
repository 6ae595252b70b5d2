#pragma once

#include <cstdint>
#include <variant>

#include "daemon/cluster/messages/kinds.h"
#include "src/base/status.h"
#include "src/numerics/types.h"

namespace harmonaize::daemon {

// Messages about sends and receives, between the hosts of a sender and a receiver.

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

using PairMessage = std::variant<OfferMessage, AnswerMessage>;

}  // namespace harmonaize::daemon
