#pragma once

#include <sys/types.h>

#include <string>

namespace harmonaize {

/// A process in words, with what keeps it from answering where the kernel says: "process 12",
/// "process 12, which is stopped (SIGSTOP, or a debugger)". Of a process that is not seen from here
/// (0, as in other process namespaces) "a process of another namespace".
std::string DescribeProcess(pid_t process);

}  // namespace harmonaize
