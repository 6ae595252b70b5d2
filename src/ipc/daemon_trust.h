#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "src/base/status.h"
#include "src/base/user_numbers.h"
#include "src/ipc/socket_path.h"

namespace harmonaize {

// Decides whether a client trusts a daemon. A daemon determines the results of operations and maps
// a tenant's memory, and any user of the host can listen at a socket. The kernel tells which user
// listens.

/// Root's file that names the user as which the provider runs the daemon.
inline constexpr const char* kDaemonUserFile = "/etc/harmonaize/daemon-user";

/// Returns the user that the file at `path` names, by name or by number; nullopt where there is no
/// file. Errors: a user other than root may have written or placed the file, or it names no user.
Result<std::optional<uid_t>> ReadDaemonUser(const std::string& path);

/// Returns ok if a client may trust a daemon that runs as `server` at `place`: root, this user, or
/// the user that `daemon_user_file` names. A user unknown to the namespace is trusted only at a
/// place that was named. Errors: kUnavailable, with the socket, the user and the way out.
Status CheckDaemonUser(uid_t server, const SocketPlace& place, const std::string& daemon_user_file,
                       const UserNumbers& numbers);

}  // namespace harmonaize
