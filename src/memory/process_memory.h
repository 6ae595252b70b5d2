#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "src/base/status.h"

namespace harmonaize {

/// Copies between this process and the private memory of another (process_vm_readv, Linux 3.2). The
/// kernel asks for the right to ptrace the other: same user, or CAP_SYS_PTRACE.
///
/// A page of the other process that is not there is faulted in on the caller's time. Who owns the
/// process decides how long that takes (userfaultfd, FUSE), so never call these from a thread that
/// others wait for. A process is named by its number: the caller makes sure that the number has not
/// passed on to another process (by holding a connection or a pidfd to it).
///
/// Thread safe. Errors, all naming process and address and leaving a part of the bytes copied:
/// kInvalidArgument when the address is not mapped there (or not writable), kRemoteError when the
/// process is gone, kSystemError when the kernel does not permit it, or for any other reason.
/// A successful call neither allocates nor locks.

/// Copies `bytes` at `address` in `process` to `to`.
Status ReadProcess(pid_t process, uint64_t address, std::byte* to, size_t bytes);

/// Copies `bytes` from `from` to `address` in `process`.
Status WriteProcess(pid_t process, uint64_t address, const std::byte* from, size_t bytes);

}  // namespace harmonaize
