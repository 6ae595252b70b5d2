#include "src/planner/thread_costs.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/base/file_descriptor.h"
#include "src/base/futex.h"
#include "src/planner/take_turns.h"

namespace harmonaize {
namespace {

// Time for which tries go on, at least.
constexpr uint64_t kTurnsNanoseconds = 2'000'000;
// After this time any number of tries is enough.
constexpr uint64_t kPatienceNanoseconds = 30'000'000;
// Until then tries go on until there are this many: on a busy host other programs take most of the
// time.
constexpr int kFewestTries = 20;
// Time that a caller stays busy before it wakes others, so that they sleep by then.
constexpr uint64_t kPauseNanoseconds = 20'000;
// Takes the place of kTurnsNanoseconds for round trips.
constexpr uint64_t kRoundTripsNanoseconds = 5'000'000;

/// Returns whether to go on after so many complete tries and so long.
bool GoOn(int tries, uint64_t spent_ns, uint64_t enough_ns) {
  if (tries < 1) return true;
  return spent_ns < (tries < kFewestTries ? kPatienceNanoseconds : enough_ns);
}

/// Returns the time from one thread to the other in the fastest of several tries of `turns` turns
/// each.
double FastestTurn(const TwoProcessors& processors, int turns) {
  const uint64_t start = MonotonicNanoseconds();
  uint64_t try_start = 0;
  uint64_t best = UINT64_MAX;
  int turn = 0;
  int tries = 0;
  TakeTurns(
      processors,
      [&] {
        if (++turn % turns != 0) return true;
        const uint64_t now = MonotonicNanoseconds();
        if (try_start != 0) best = std::min(best, now - try_start);
        try_start = now;
        return GoOn(++tries - 1, now - start, kTurnsNanoseconds);
      },
      [] {});
  return static_cast<double>(best) / (2.0 * turns);
}

void StayBusy(uint64_t nanoseconds) {
  const uint64_t until = MonotonicNanoseconds() + nanoseconds;
  while (MonotonicNanoseconds() < until) {
  }
}

/// Returns the median and reorders the values. Requires: there is at least one.
uint64_t Median(std::vector<uint64_t>* values) {
  const auto middle = values->begin() + static_cast<std::ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

/// Calls `call` on leaving its scope, so that a thread ends even if its maker fails.
template <typename Call>
struct Ending {
  Call call;
  ~Ending() { call(); }
};
template <typename Call>
Ending(Call) -> Ending<Call>;

/// Rehearses one operation at a time with the roles of client, engine and worker.
class Rehearsal {
 public:
  explicit Rehearsal(FileDescriptor bell) : bell_(std::move(bell)) {}

  /// Measures on one processor.
  void Run(int processor, HostCosts* costs) {
    costs->round_trip_ns = FastestTripOn(processor);
    costs->wake_ns = static_cast<double>(std::max<uint64_t>(Median(&wakes_), 1));
  }

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;
  static constexpr int kTripsOfTry = 4;
  /// The time for which a client polls before it sleeps.
  static constexpr uint64_t kSpinNanoseconds = 2'000;

  double FastestTripOn(int processor) {
    double fastest = 0;
    const auto on_processor = [processor](auto call) {
      return std::jthread([=] {
        PinCallingThread(processor);
        call();
      });
    };
    const std::jthread worker = on_processor([this] { Work(); });
    const Ending end_worker{[this] { HandToWorker(kEnd); }};
    const std::jthread engine = on_processor([this] { RunEngine(); });
    const Ending end_engine{[this] { Submit(kEnd); }};
    on_processor([this, &fastest] { fastest = FastestTrip(); }).join();
    return fastest;
  }

  double FastestTrip() {
    const uint64_t start = MonotonicNanoseconds();
    double best = std::numeric_limits<double>::infinity();
    uint32_t request = 0;
    for (int tries = 0; GoOn(tries, MonotonicNanoseconds() - start, kRoundTripsNanoseconds);
         ++tries) {
      uint64_t sum = 0;
      for (int trip = 0; trip < kTripsOfTry; ++trip) sum += Trip(++request);
      best = std::min(best, static_cast<double>(sum) / kTripsOfTry);
    }
    return best;
  }

  uint64_t Trip(uint32_t request) {
    // The client is busy for a moment, as a program is between operations, so the other two sleep.
    StayBusy(kPauseNanoseconds);
    const uint64_t start = MonotonicNanoseconds();
    Submit(request);
    const auto done = [&] { return completed_.load(std::memory_order_acquire) == request; };
    while (!done() && MonotonicNanoseconds() - start < kSpinNanoseconds) {
    }
    while (!done()) {
      const uint32_t seen = completed_.load(std::memory_order_acquire);
      if (seen != request) FutexWaitShared(&completed_, seen, 1'000'000'000);
    }
    return MonotonicNanoseconds() - start;
  }

  void Submit(uint32_t request) {
    request_.store(request, std::memory_order_release);
    const uint64_t one = 1;
    // The write cannot fail: the counter is far from full.
    static_cast<void>(!write(bell_.get(), &one, sizeof one));
  }

  void RunEngine() {
    while (true) {
      pollfd bell{.fd = bell_.get(), .events = POLLIN, .revents = 0};
      poll(&bell, 1, -1);
      uint64_t rings = 0;
      if (read(bell_.get(), &rings, sizeof rings) != sizeof rings) continue;
      const uint32_t request = request_.load(std::memory_order_acquire);
      if (request == kEnd) return;
      const uint64_t start = MonotonicNanoseconds();
      HandToWorker(request);
      wakes_.push_back(MonotonicNanoseconds() - start);
    }
  }

  void HandToWorker(uint32_t request) {
    work_.store(request, std::memory_order_release);
    FutexWakeOnePrivate(&work_);
  }

  void Work() {
    uint32_t last = 0;
    while (true) {
      const uint32_t work = work_.load(std::memory_order_acquire);
      if (work == kEnd) return;
      if (work == last) {
        FutexWaitPrivate(&work_, work);
        continue;
      }
      last = work;
      completed_.store(work, std::memory_order_release);
      FutexWakeAllShared(&completed_);
    }
  }

  FileDescriptor bell_;
  alignas(64) std::atomic<uint32_t> request_{0};
  alignas(64) std::atomic<uint32_t> work_{0};
  alignas(64) std::atomic<uint32_t> completed_{0};
  std::vector<uint64_t> wakes_;  // of the engine, to be read once it has ended
};

/// Runs a thread that sleeps until it is woken, and answers at once when awake.
class Sleeper {
 public:
  void Run(int processor) {
    PinCallingThread(processor);
    for (uint32_t call = 0; call != kEnd;) {
      FutexWaitPrivate(&called_, call);
      call = called_.load(std::memory_order_acquire);
      answered_.store(call, std::memory_order_release);
    }
  }

  /// Wakes the thread and returns the nanoseconds until it has answered.
  uint64_t Wake(uint32_t call) {
    // By the end of the pause the thread sleeps, and so does its processor.
    StayBusy(kPauseNanoseconds);
    const uint64_t start = MonotonicNanoseconds();
    called_.store(call, std::memory_order_release);
    FutexWakeOnePrivate(&called_);
    // Yields, because the two may share a processor.
    while (answered_.load(std::memory_order_acquire) != call) sched_yield();
    return MonotonicNanoseconds() - start;
  }

  void End() {
    called_.store(kEnd, std::memory_order_release);
    FutexWakeOnePrivate(&called_);
  }

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;

  alignas(64) std::atomic<uint32_t> called_{0};
  alignas(64) std::atomic<uint32_t> answered_{0};
};

uint64_t MedianWakeUp(Sleeper& sleeper) {
  std::vector<uint64_t> tries;
  const uint64_t start = MonotonicNanoseconds();
  while (GoOn(static_cast<int>(tries.size()), MonotonicNanoseconds() - start, kTurnsNanoseconds)) {
    tries.push_back(sleeper.Wake(static_cast<uint32_t>(tries.size()) + 1));
  }
  return Median(&tries);
}

}  // namespace

Status MeasureWakeUp(HostCosts* costs) {
  const TwoProcessors processors = TwoProcessors::Usable();
  Sleeper sleeper;
  const std::jthread asleep([&] { sleeper.Run(processors.second); });
  const Ending end{[&] { sleeper.End(); }};
  std::jthread([&] {
    PinCallingThread(processors.first);
    costs->wake_up_ns = static_cast<double>(std::max<uint64_t>(MedianWakeUp(sleeper), 1));
  }).join();
  return Status::Ok();
}

Status MeasureTurns(HostCosts* costs) {
  const TwoProcessors apart = TwoProcessors::Usable();
  const TwoProcessors together{apart.first, apart.first};
  costs->handoff_ns = FastestTurn(apart, 20);
  costs->yield_ns = apart.same() ? costs->handoff_ns : FastestTurn(together, 3);
  return Status::Ok();
}

Status MeasureRoundTrip(HostCosts* costs) {
  FileDescriptor bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return ErrnoError(errno, "cannot make an eventfd to measure this host with");
  Rehearsal(std::move(bell)).Run(TwoProcessors::Usable().first, costs);
  return Status::Ok();
}

}  // namespace harmonaize
