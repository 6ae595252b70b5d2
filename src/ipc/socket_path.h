#pragma once

#include <string>
#include <vector>

namespace harmonaize {

/// Where a daemon that this user starts listens: $HARMONAIZE_SOCKET when set; else
/// /run/harmonaize/harmonaized.sock for root; else $XDG_RUNTIME_DIR/harmonaize/harmonaized.sock, or
/// /tmp/harmonaize-<uid>/harmonaized.sock where that variable is unset.
std::string DefaultSocketPath();

/// The sockets that a client tries, in this order: only the one that the environment names, or the
/// user's own and then the system's.
std::vector<std::string> ClientSocketPaths();

}  // namespace harmonaize
