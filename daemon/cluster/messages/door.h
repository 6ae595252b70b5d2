#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/cluster/messages/kinds.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// Messages about doors, at which processes of other hosts knock for a communicator.

/// A process knocks at a door of the receiver's host. It has joined the communicator of this id as
/// rank 0.
struct KnockMessage {
  static constexpr MessageKind kKind = MessageKind::kKnock;
  std::vector<uint8_t> door{};  ///< UniqueId::token of the door.
  uint32_t user = 0;            ///< The knocker's: TenantIdentity::across_hosts.
  std::vector<uint8_t> id{};    ///< The UniqueId.
};

/// Nobody will answer the knock with this id.
struct KnockRefusedMessage {
  static constexpr MessageKind kKind = MessageKind::kKnockRefused;
  std::vector<uint8_t> id{};
  Status status{};
};

using DoorMessages = MessageList<KnockMessage, KnockRefusedMessage>;

}  // namespace harmonaize::daemon
