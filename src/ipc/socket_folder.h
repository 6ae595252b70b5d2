#pragma once

#include <string>

#include "src/base/status.h"

namespace harmonaize {

// Below /tmp anybody can make a folder, or a link, of any name before its user does. So each folder
// on the way to a socket there must be a directory and no link, belong to this user or to root, and
// not be writable for everybody without the sticky bit. /tmp/harmonaize-<uid> must be closed to all
// others. The same holds below $XDG_RUNTIME_DIR, which may be another user's after su. Elsewhere
// folders are not checked: only users who have the right can make them.

/// Returns whether the folder of the socket at `path` meets these rules. Errors: name the folder,
/// what is wrong and the way out. A missing folder is no error.
Status CheckSocketFolder(const std::string& path);

/// Makes the folder of the socket at `path` where it is missing, and checks it. Folders that it
/// makes below /tmp and $XDG_RUNTIME_DIR are closed to other users.
Status MakeSocketFolder(const std::string& path);

}  // namespace harmonaize
