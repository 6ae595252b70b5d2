#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// A stranger's messages on a socket may hold descriptors, and the kernel may wait for the stranger
// when it closes these with the socket: for a connection that lingers, say. So a process that does
// nothing else has the last copies, and is killed. The kernel does not wait for a connection to
// linger when a process ends, and if anything else delays that end, no thread of the daemon waits.

/// Closes the descriptors, and returns the process that closes them last; the caller calls
/// waitpid(2) for it some time. Errors: no process could be started; all are left open.
Result<pid_t> CloseElsewhere(std::vector<FileDescriptor>* descriptors);

/// Closes all descriptors of this process above 2 but for `kept`, which become 3, 4 and so on in
/// their order and stay open when another program is executed. The daemon's memory of open
/// descriptors is void after this: the process executes another program or ends. If no process can
/// be started, what is open is left to the execution.
void CloseAllElsewhere(std::span<const FileDescriptor> kept);

}  // namespace harmonaize::daemon
