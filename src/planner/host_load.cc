#include "src/planner/host_load.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>

#include "src/base/clock.h"
#include "src/base/kernel_files.h"
#include "src/planner/take_turns.h"

namespace harmonaize {
namespace {

/// How long one look takes on an idle host. It exceeds the stint of some 3 ms for which the
/// kernel's scheduler lets a thread run before one that waits has its turn.
constexpr uint64_t kLookNanoseconds = 5'000'000;

/// The clock jumps by more than this when a thread lost its processor. Interrupts take a few
/// microseconds, and a virtual machine's exits a few tens.
constexpr uint64_t kJumpNanoseconds = 100'000;

/// More lost time than this makes a load heavy. The occasional work of an idle host stays below: a
/// kernel thread that runs for half a millisecond during four looks takes 2.5% of them.
constexpr double kHeavyLoss = 0.1;

/// Threads that run or wait for a processor on the whole host, without the calling one; 0 where the
/// kernel does not say. /proc/loadavg is "0.20 0.18 0.12 1/80 11206": load averages, runnable of
/// all threads, the last process.
int OthersRunning() {
  int running = 0;
  const std::string line = FirstLine("/proc/loadavg");
  if (std::sscanf(line.c_str(), "%*f %*f %*f %d/", &running) != 1) return 0;
  return std::max(0, running - 1);
}

}  // namespace

bool HostLoad::heavy() const {
  return lost > kHeavyLoss;
}

LoadMeter::Time LoadMeter::LookAt(int processor) {
  const uint64_t start = MonotonicNanoseconds();
  // The clock runs before pinning, because waiting for the processor counts.
  PinCallingThread(processor);
  uint64_t lost = 0;
  uint64_t before = start;
  while (before < start + kLookNanoseconds) {
    const uint64_t now = MonotonicNanoseconds();
    if (now - before > kJumpNanoseconds) lost += now - before;
    before = now;
  }
  return {before - start, lost};
}

Status LoadMeter::Look() {
  // Counted before the threads of this look would be.
  running_.push_back(OthersRunning());
  const TwoProcessors processors = TwoProcessors::Usable();
  Time seen[2];
  try {
    const std::jthread first([&] { seen[0] = LookAt(processors.first); });
    if (!processors.same()) {
      std::jthread([&] { seen[1] = LookAt(processors.second); }).join();
    }
  } catch (const std::system_error& error) {
    return ErrnoError(error.code().value(), "cannot start a thread to look at this host's load");
  }
  for (size_t i = 0; i < std::size(seen); ++i) {
    times_[i].wanted_ns += seen[i].wanted_ns;
    times_[i].lost_ns += seen[i].lost_ns;
  }
  return Status::Ok();
}

HostLoad LoadMeter::load() const {
  HostLoad load;
  for (const Time& time : times_) {
    if (time.wanted_ns == 0) continue;
    load.lost = std::max(load.lost,
                         static_cast<double>(time.lost_ns) / static_cast<double>(time.wanted_ns));
  }
  if (!running_.empty()) {
    std::vector<int> sorted = running_;
    std::sort(sorted.begin(), sorted.end());
    load.running = sorted[sorted.size() / 2];
  }
  return load;
}

}  // namespace harmonaize
