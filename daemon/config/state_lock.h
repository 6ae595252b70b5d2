#pragma once

#include <string>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Keeps other daemons from a state directory for as long as the descriptor is open, which two
/// would damage or hide from each other. The kernel lets go of it however the daemon ends, and also
/// when the process becomes the daemon anew. `socket_path` is where this daemon listens, which
/// others are told. Returns no valid descriptor for "", and for a folder that a daemon does not use
/// either, as CheckStateFolder has it, or in which it cannot write. Errors: kInvalidUsage, with the
/// other daemon's process and socket.
Result<FileDescriptor> LockState(const std::string& folder, const std::string& socket_path);

}  // namespace harmonaize::daemon
