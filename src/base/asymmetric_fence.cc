#include "src/base/asymmetric_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace harmonaize {
namespace {

long Membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0);
}

/// Returns the best command that the kernel offers, or -1.
int Command() {
  static const int command = [] {
    const long offered = Membarrier(MEMBARRIER_CMD_QUERY);
    if (offered < 0) return -1;
    if ((offered & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0 &&
        (offered & MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) != 0) {
      return static_cast<int>(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    }
    if ((offered & MEMBARRIER_CMD_GLOBAL) != 0) return static_cast<int>(MEMBARRIER_CMD_GLOBAL);
    return -1;
  }();
  return command;
}

}  // namespace

void HeavyFence() {
  // The command is a full fence of the caller, too.
  if (Command() >= 0) Membarrier(Command());
}

void JoinAsymmetricFences() {
  if (Command() == MEMBARRIER_CMD_GLOBAL_EXPEDITED) {
    Membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
  }
}

bool HasAsymmetricFences() {
  return Command() >= 0;
}

}  // namespace harmonaize
