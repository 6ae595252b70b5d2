#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"

namespace harmonaize::daemon {

/// Returns the folder in which a daemon keeps what outlives it: $STATE_DIRECTORY, which systemd
/// sets; else /var/lib/harmonaize for root; else $XDG_STATE_HOME/harmonaize, or
/// ~/.local/state/harmonaize. Returns "" for a user without a home.
std::string DefaultStateDirectory();

/// Returns an error unless only this user and root could have put files into the state directory. A
/// folder that is missing is no error.
Status CheckStateFolder(const std::string& folder);

/// Makes the folder if it is missing, closed to other users whatever the umask says, and checks it
/// as above.
Status MakeStateFolder(const std::string& folder);

/// Makes the folder if need be, checks it as above, and replaces the file `name` in it by one that
/// holds `text`. Readers see the old file or the new one, whole. The new file is not forced to the
/// disk, so it may be damaged after a crash of the host. An error says what could not be written,
/// and why.
Status ReplaceStateFile(const std::string& folder, const std::string& name, std::string_view text);

}  // namespace harmonaize::daemon
