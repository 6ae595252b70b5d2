#include "src/memory/process_memory.h"

#include <errno.h>
#include <sys/uio.h>

#include <algorithm>

namespace harmonaize {
namespace {

enum class Direction { kRead, kWrite };

// The kernel cuts one call at 2 GiB minus a page; staying below makes partial transfers mean a
// fault and nothing else.
constexpr size_t kLargestTransfer = size_t{1} << 30;

ssize_t Transfer(Direction direction, pid_t process, uint64_t address, std::byte* here,
                 size_t bytes) {
  iovec local{here, bytes};
  iovec remote{reinterpret_cast<void*>(address), bytes};
  return direction == Direction::kRead ? process_vm_readv(process, &local, 1, &remote, 1, 0)
                                       : process_vm_writev(process, &local, 1, &remote, 1, 0);
}

Status Failure(int error_number, Direction direction, pid_t process, uint64_t address,
               size_t bytes) {
  const char* verb = direction == Direction::kRead ? "read" : "write";
  switch (error_number) {
    case EFAULT:
      return InvalidArgument("cannot {} {} bytes at 0x{:x} of process {}: {}", verb, bytes, address,
                             process,
                             direction == Direction::kRead ? "the memory is not mapped there"
                                                           : "no writable memory there");
    case ESRCH: return RemoteError("process {} has ended", process);
    case EPERM:
      return SystemError(
          "the kernel does not permit to {} memory of process {} (address 0x{:x}); see "
          "kernel.yama.ptrace_scope and CAP_SYS_PTRACE",
          verb, process, address);
    default:
      return ErrnoError(error_number, fmt::format("cannot {} {} bytes at 0x{:x} of process {}",
                                                  verb, bytes, address, process));
  }
}

Status Copy(Direction direction, pid_t process, uint64_t address, std::byte* here, size_t bytes) {
  while (bytes > 0) {
    const size_t piece = std::min(bytes, kLargestTransfer);
    const ssize_t moved = Transfer(direction, process, address, here, piece);
    if (moved < 0) {
      if (errno == EINTR) continue;
      return Failure(errno, direction, process, address, bytes);
    }
    // Nothing moved and no error: the process is on its way out and has no memory any more.
    if (moved == 0) return Failure(ESRCH, direction, process, address, bytes);
    // After a short transfer the next call starts at the byte that failed and names it.
    address += static_cast<uint64_t>(moved);
    here += moved;
    bytes -= static_cast<size_t>(moved);
  }
  return Status::Ok();
}

}  // namespace

Status ReadProcess(pid_t process, uint64_t address, std::byte* to, size_t bytes) {
  return Copy(Direction::kRead, process, address, to, bytes);
}

Status WriteProcess(pid_t process, uint64_t address, const std::byte* from, size_t bytes) {
  // The iovec of a write is only read from; its type has no const.
  return Copy(Direction::kWrite, process, address, const_cast<std::byte*>(from), bytes);
}

}  // namespace harmonaize
