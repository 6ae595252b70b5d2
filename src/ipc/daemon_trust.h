#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "src/base/status.h"
#include "src/base/user_numbers.h"
#include "src/ipc/socket_path.h"

namespace harmonaize {

// Whom a client believes that it is the provider's daemon. A daemon says what operations gave and
// maps a tenant's memory, and any user of the host can listen at a socket. The kernel tells which
// user listens.

/// Root's file that names the user as whom the provider runs the daemon.
inline constexpr const char* kDaemonUserFile = "/etc/harmonaize/daemon-user";

/// The user that the file at `path` names, by name or by number; nullopt where there is no file. An
/// error where somebody but root may have written or placed the file, or where it names no user.
Result<std::optional<uid_t>> ReadDaemonUser(const std::string& path);

/// Ok where a client believes a daemon that runs as `server` at `place`: root, this user, or the
/// one whom `daemon_user_file` names. A user that the namespace does not know is believed only at a
/// place that was named. kUnavailable names socket, user and the way out.
Status CheckDaemonUser(uid_t server, const SocketPlace& place, const std::string& daemon_user_file,
                       const UserNumbers& numbers);

}  // namespace harmonaize
