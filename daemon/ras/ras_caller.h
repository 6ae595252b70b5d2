#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/config/config.h"
#include "daemon/http/http_exchange.h"
#include "daemon/http/loopback_peer.h"
#include "daemon/identity/control_groups.h"
#include "daemon/identity/tenant_identity.h"
#include "src/base/status.h"
#include "src/transport/address.h"

namespace harmonaize::daemon {

/// Returns whether a control group of this path is one of the host's own processes: the hierarchy's
/// root, or a service's or a session's as systemd makes them, and no container's below.
bool IsHostGroup(const std::string& path);

/// Finds out who asks over loopback. A TCP connection has no credentials, but the kernel knows
/// whose process made the other end. Thread: one.
///
/// A user is a tenant, as elsewhere. Root, and the daemon's own user, are operators where the
/// process is the host's (IsHostGroup): a container that shares the host's network may have a root
/// that is not the host's. Where containers are tenants of their own (tenants.identity = "cgroup")
/// a container's process is refused, and so is one whose control group is not known: it has its own
/// socket's commands.
class RasCallers {
 public:
  static Result<RasCallers> Open(const TenantsConfig& config);

  /// Returns who has the end `peer` of a connection to `own`. Errors: kUnavailable, for the caller,
  /// where that is nobody's, or in a container that may not ask here.
  Result<HttpCaller> Identify(const transport::NetworkAddress& peer,
                              const transport::NetworkAddress& own);

 private:
  RasCallers(const TenantsConfig& config, LoopbackPeers peers);

  bool containers_are_tenants_;
  uid_t nobody_;  ///< The user for whom the kernel has no number in the daemon's user namespace.
  LoopbackPeers peers_;
  ControlGroups groups_;
  SubordinateIds subordinate_ids_;
};

}  // namespace harmonaize::daemon
