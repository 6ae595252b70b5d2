#include "perf/compare/forked_ranks.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace harmonaize::perf {

void* SharedMemory(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, bytes, MADV_HUGEPAGE);  // where the machine grants it
  return memory;
}

bool RunForked(int ranks, const std::function<bool(int)>& body) {
  std::fflush(stdout);
  std::vector<pid_t> children;
  const pid_t parent = getpid();
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child < 0) break;
    if (child == 0) {
      // The ranks end with the parent, even if that is killed for taking too long.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      const bool ok = body(rank);
      std::fflush(stdout);
      _exit(ok ? 0 : 1);
    }
    children.push_back(child);
  }
  bool ok = static_cast<int>(children.size()) == ranks;
  if (!ok) {
    for (const pid_t child : children) kill(child, SIGKILL);
  }
  while (!children.empty()) {
    int status = 0;
    const pid_t ended = wait(&status);
    if (ended < 0) break;
    std::erase(children, ended);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    ok = false;
    for (const pid_t child : children) kill(child, SIGKILL);
  }
  return ok;
}

}  // namespace harmonaize::perf
