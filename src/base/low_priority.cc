#include "src/base/low_priority.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace harmonaize {
namespace {

constexpr int kNice = 19;
/// ioprio_set(2), for which the C library has no names: a thread, and the idle class.
constexpr int kIoPriorityProcess = 1;
constexpr int kIoPriorityIdle = 3 << 13;

}  // namespace

void TakeLowestPriority() {
  // For the kernel 0 is the calling thread, in each of these.
  setpriority(PRIO_PROCESS, 0, kNice);
  const sched_param none{};
  sched_setscheduler(0, SCHED_BATCH, &none);
  syscall(SYS_ioprio_set, kIoPriorityProcess, 0, kIoPriorityIdle);
}

}  // namespace harmonaize
