#pragma once

#include <span>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

// A stranger's messages on a socket may hold descriptors, and the kernel may wait for the stranger
// when it closes these with the socket: for a connection that lingers, say. So a process that does
// nothing else has the last copies, and is killed. The kernel does not wait for a connection to
// linger when a process ends, and if anything else delays that end, no thread of the daemon waits.

/// Has the kernel forget such processes when they end. Nobody else may wait for a child of the
/// daemon's.
void WaitForNoChild();

/// Closes the descriptors. Errors: no process could be started; all are left open.
Status CloseElsewhere(std::vector<FileDescriptor>* descriptors);

/// Closes all descriptors of this process above 2 but for `kept`, which become 3, 4 and so on in
/// their order and stay open when another program is executed. The daemon's memory of open
/// descriptors is void after this: the process executes another program or ends. If no process can
/// be started, what is open is left to the execution.
void CloseAllElsewhere(std::span<const FileDescriptor> kept);

}  // namespace harmonaize::daemon
