#pragma once

#include <string>
#include <vector>

#include "src/base/file_descriptor.h"
#include "src/base/status.h"

namespace harmonaize::daemon {

/// Returns the file of this program: the name by which it was started, which may lead to a newer
/// version later, or the file itself where that is no absolute path.
std::string ProgramFile(const char* name);

/// Executes the program with these arguments, or the one that runs now where that cannot be
/// executed. The process keeps its number, so that this needs no service manager and none counts it
/// as a failure. The next program finds `sockets` as it would find those of a service manager
/// (sd_listen_fds(3)); all other descriptors are closed, and no tenant's can make this wait.
/// Returns the error if both fail, when nothing is open any more.
Status StartAnew(const std::string& program, char** argv,
                 const std::vector<FileDescriptor>& sockets);

/// Returns the sockets that a service manager or an earlier program has passed on to this process.
/// They are not passed on any further. Requires: no thread has started.
std::vector<FileDescriptor> SocketsPassedOn();

}  // namespace harmonaize::daemon
