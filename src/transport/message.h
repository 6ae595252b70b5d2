#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "src/base/status.h"

namespace harmonaize::transport {

/// A peer for as long as one link to it lasts; never used again. 0 is none.
using PeerId = uint64_t;

/// Which message of a pair of daemons. An operation's number is not used again once cancelled.
struct MessageTag {
  uint64_t operation = 0;
  uint32_t step = 0;
  uint32_t part = 0;

  auto operator<=>(const MessageTag&) const = default;
};

/// Whose a message is, and how much of a connection that tenant gets while others want it too.
struct TenantShare {
  uint32_t tenant = 0;  ///< As the caller numbers them.
  float weight = 1;     ///< Above 0; of those who send at the same time.
  uint64_t job = 0;     ///< Of this tenant, whose jobs share alike. Numbered alike on all hosts.

  friend bool operator==(const TenantShare&, const TenantShare&) = default;
};

/// Which way a message takes to its peer.
struct RailChoice {
  size_t rail = 0;  ///< 0 to PeerInfo::rails - 1.
  /// Of a rail that has several connections, only the first: one flow to routers, and in order.
  bool first_connection = false;
  TenantShare share{};
  /// Bytes of its operation that are still to be sent here, this message among them. Of those who
  /// want to send, who has less left goes first, within bounds (SendQueue). 0: not known.
  uint64_t left = 0;

  friend bool operator==(const RailChoice&, const RailChoice&) = default;
};

/// Called once for each posted send and receive, from Progress: the buffer is the caller's again.
/// `bytes`: what was received, or sent.
struct Completion {
  void (*call)(void* context, const Status& status, size_t bytes) = nullptr;
  void* context = nullptr;
};

}  // namespace harmonaize::transport
