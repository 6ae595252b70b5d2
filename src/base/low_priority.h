#pragma once

namespace harmonaize {

/// Gives the calling thread, and those that it makes, the lowest priority: for processors (the
/// greatest nice value, SCHED_BATCH) and for disks (the class of those that use one which nobody
/// else wants). What the kernel refuses of it is done without.
void TakeLowestPriority();

}  // namespace harmonaize
