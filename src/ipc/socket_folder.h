#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize {

// Below /tmp anybody can make a folder, or a link, of any name before its user does. So each folder
// on the way to a socket there must be a directory and no link, belong to this user or to root, and
// not be open to everybody's writing. /tmp/harmonaize-<uid> must be closed to all others. The same
// holds below $XDG_RUNTIME_DIR, which may be another user's after su. Elsewhere folders are as
// those who may make them there want them.

/// Whether the folder of the socket at `path` is as it must be. An error names the folder, what is
/// wrong and the way out. A folder that is missing is no error.
Status CheckSocketFolder(const std::string& path);

/// Makes the folder of the socket at `path` where it is missing, and checks it. Below /tmp and
/// $XDG_RUNTIME_DIR nobody else can enter what this makes.
Status MakeSocketFolder(const std::string& path);

}  // namespace harmonaize
