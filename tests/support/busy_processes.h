#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "src/base/clock.h"
#include "src/base/processors.h"
#include "src/planner/take_turns.h"

namespace harmonaize::testing {

/// Processes that compute for as long as this object exists, some on each processor.
class BusyProcesses {
 public:
  explicit BusyProcesses(int on_each_processor) {
    for (const int processor : UsableProcessors()) {
      for (int i = 0; i < on_each_processor; ++i) Start(processor);
    }
  }
  ~BusyProcesses() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
  }
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;

 private:
  void Start(int processor) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      PinCallingThread(processor);
      while (MonotonicNanoseconds() > 0) {
      }
    }
    if (child > 0) children_.push_back(child);
  }

  std::vector<pid_t> children_;
};

}  // namespace harmonaize::testing
