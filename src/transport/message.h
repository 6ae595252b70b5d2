#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "src/base/status.h"

namespace harmonaize::transport {

/// Names a peer for as long as one link to it lasts, and is never used again. 0: none.
using PeerId = uint64_t;

/// On whose behalf a control message is sent, as the caller numbers them.
using ControlSender = uint64_t;
/// The daemon itself.
inline constexpr ControlSender kOwnMessages = 0;

/// Identifies a message of a pair of daemons. An operation's number is not used again once
/// cancelled.
struct MessageTag {
  uint64_t operation = 0;
  uint32_t step = 0;
  uint32_t part = 0;

  auto operator<=>(const MessageTag&) const = default;
};

/// Largest weight of a message: a frame's bytes still move the start of a flow with this weight by
/// more than the precision of a clock that goes by a weight of 1 (FairTurns).
inline constexpr double kMostWeight = 1e12;

/// The tenant of a message, and its share of a connection while other tenants want some too.
struct TenantShare {
  uint32_t tenant = 0;  ///< Tenant, as the caller numbers them.
  /// Weight among the tenants that send at the same time, with the priority in it; above 0, and
  /// kMostWeight at most.
  float weight = 1;
  uint64_t job = 0;  ///< Job of this tenant, whose jobs get equal shares. Numbered alike on all
                     ///< hosts.
  /// Jobs of one tenant that have one owner have floor and cap together. Numbered alike on all
  /// hosts. 0: the message is the daemon's own, which no term holds for.
  uint64_t owner = 0;
  uint8_t priority = 0;  ///< Only jobs of one priority divide the tenant's weight among themselves.
  /// Rate that the owner gets on each device before others get more than theirs, in bytes per
  /// second; 0: none.
  float floor = 0;
  float cap = 0;  ///< Rate that the owner does not exceed on any device; 0: no limit.
  /// Rate that the floors of all owners of the tenant together may promise on a device; 0: no bound
  /// is stated.
  float tenant_floor = 0;
  /// Rate that all owners of the tenant together do not exceed on any device; 0: no limit.
  float tenant_cap = 0;

  friend bool operator==(const TenantShare&, const TenantShare&) = default;
};

/// The way that a message takes to its peer.
struct RailChoice {
  size_t rail = 0;  ///< 0 to PeerInfo::rails - 1.
  /// Use only the first connection of a rail that has several: one flow to routers, and in order.
  bool first_connection = false;
  TenantShare share{};
  /// Bytes of its operation that are still to be sent here, including this message. Of the flows
  /// that want to send, the one with less left goes first, within bounds (SendQueue). 0: not known.
  uint64_t left = 0;

  friend bool operator==(const RailChoice&, const RailChoice&) = default;
};

/// Called once for each posted send and receive, from Progress: the caller may use the buffer
/// again. `bytes`: the number received, or sent.
struct Completion {
  void (*call)(void* context, const Status& status, size_t bytes) = nullptr;
  void* context = nullptr;
};

}  // namespace harmonaize::transport
