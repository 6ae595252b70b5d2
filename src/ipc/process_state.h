#pragma once

#include <sys/types.h>

#include <string>

namespace harmonaize {

/// Describes a process, with what keeps it from answering where the kernel tells: "process 12",
/// "process 12, which is stopped (SIGSTOP, or a debugger)". For a process that cannot be seen from
/// here (0, as in other process namespaces): "a process of another namespace".
std::string DescribeProcess(pid_t process);

}  // namespace harmonaize
