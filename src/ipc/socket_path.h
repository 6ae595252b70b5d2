#pragma once

#include <string>
#include <vector>

namespace harmonaize {

/// A place where a client may find a daemon.
struct SocketPlace {
  std::string path;
  /// Whether the user named it, by HARMONAIZE_SOCKET or on a command line. Otherwise every client
  /// looks there.
  bool named = false;
};

/// Returns where a daemon that this user starts listens: $HARMONAIZE_SOCKET when set; else
/// /run/harmonaize/harmonaized.sock for root; else $XDG_RUNTIME_DIR/harmonaize/harmonaized.sock, or
/// /tmp/harmonaize-<uid>/harmonaized.sock where that variable is unset or no absolute path.
std::string DefaultSocketPath();

/// Returns the places that a client tries, in order: only the one that the environment names, or
/// the system's and then the user's own.
std::vector<SocketPlace> ClientSocketPlaces();

/// Returns the absolute path in $XDG_RUNTIME_DIR; "" where there is none.
std::string RuntimeFolder();

/// Returns the folder of this user's socket if there is no runtime folder: /tmp/harmonaize-<uid>.
std::string OwnTemporaryFolder();

}  // namespace harmonaize
