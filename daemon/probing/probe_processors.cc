#include "daemon/probing/probe_processors.h"

namespace harmonaize::daemon {

ProbePlaces ProbePlacesOf(int burst) {
  const auto number = static_cast<size_t>(burst);
  return {.own = number % kOwnProbePlaces,
          .other = static_cast<uint8_t>(number / kOwnProbePlaces % kOtherProbePlaces)};
}

VisitProcessors::VisitProcessors() {
  CPU_ZERO(&allowed_);
  // If the kernel does not tell them, the thread stays where it is.
  if (::sched_getaffinity(0, sizeof(allowed_), &allowed_) != 0) return;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &allowed_)) processors_.push_back(processor);
  }
}

VisitProcessors::~VisitProcessors() {
  if (!processors_.empty()) ::sched_setaffinity(0, sizeof(allowed_), &allowed_);
}

void VisitProcessors::Go(size_t number, size_t count) {
  if (processors_.empty()) return;
  const size_t size = processors_.size();
  const size_t place = size > count ? number % count * size / count : number % size;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processors_[place], &one);
  ::sched_setaffinity(0, sizeof(one), &one);
}

}  // namespace harmonaize::daemon
