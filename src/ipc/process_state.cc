#include "src/ipc/process_state.h"

#include <fmt/format.h>

#include "src/base/kernel_files.h"

namespace harmonaize {
namespace {

/// Returns the kernel's letter for the state (proc(5)), which follows the name; names may hold
/// anything.
char StateOf(pid_t process) {
  const std::string line = FirstLine(fmt::format("/proc/{}/stat", process));
  const size_t end_of_name = line.rfind(')');
  return end_of_name == std::string::npos || end_of_name + 2 >= line.size() ? '?'
                                                                            : line[end_of_name + 2];
}

}  // namespace

std::string DescribeProcess(pid_t process) {
  if (process == 0) return "a process of another namespace";
  std::string text = fmt::format("process {}", process);
  switch (StateOf(process)) {
    case 'T': return text + ", which is stopped (by SIGSTOP, say)";
    case 't': return text + ", which a debugger has stopped";
    case 'D': return text + ", which waits for a disk or a device";
    case 'Z':
    case 'X': return text + ", which has ended";
    default: return text;
  }
}

}  // namespace harmonaize
