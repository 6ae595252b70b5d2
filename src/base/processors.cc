#include "src/base/processors.h"

#include <sched.h>

namespace harmonaize {

std::vector<int> UsableProcessors() {
  cpu_set_t set;
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (CPU_ISSET(processor, &set)) processors.push_back(processor);
    }
  }
  if (processors.empty()) processors.push_back(0);
  return processors;
}

}  // namespace harmonaize
