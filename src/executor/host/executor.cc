#include "src/executor/host/executor.h"

#include <fmt/ranges.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "src/base/clock.h"
#include "src/base/pause.h"
#include "src/base/processors.h"
#include "src/base/wait_estimate.h"

namespace harmonaize {
namespace {

// Seconds from Start to the return of TakeFinished without the work itself: a thread has to wake
// up.
constexpr double kOverheadSeconds = 8e-6;

// Most workers that a poster wakes itself. Woken workers wake the rest, so that the owner of a host
// with many cores does not spend its time in the kernel.
constexpr int kDirectWakes = 2;

constexpr uint64_t kAllSlots = ~uint64_t{0};

/// Time slice that workers ask for: several times what threads have by default.
constexpr uint64_t kWorkerSliceNanoseconds = 20'000'000;
/// Time, in wake-ups, for which ranks are awaited after their operation has ended: they are woken,
/// and then have to post.
constexpr uint64_t kAwaitedWakeUps = 4;

Status KeepCallingThreadOn(const std::vector<int>& processors) {
  if (processors.empty()) return Status::Ok();
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) {
    if (processor < 0 || processor >= CPU_SETSIZE) {
      return InvalidArgument("executor: no processor {}", processor);
    }
    CPU_SET(static_cast<size_t>(processor), &set);
  }
  const int error = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  return error == 0 ? Status::Ok()
                    : ErrnoError(error, fmt::format("executor: cannot run on processor {}",
                                                    fmt::join(processors, ", ")));
}

/// Ranks that wake up have little to do before they post the next operation; workers have much.
/// With long slices for workers, threads with shorter slices preempt them (Linux 6.12 and later;
/// older kernels ignore it).
void AskForLongSlices() {
  struct {
    uint32_t size = 0;
    uint32_t policy = SCHED_OTHER;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime_ns = kWorkerSliceNanoseconds;
    uint64_t deadline_ns = 0;
    uint64_t period_ns = 0;
  } attributes;
  attributes.size = sizeof attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/// Returns how many workers an execution of a bounded job may keep busy beside an owner that helps.
int BoundedLanes(const Execution& execution) {
  return execution.most_threads() - (execution.bound().helpable ? 1 : 0);
}

/// Returns the node that worker `index` is near, or -1.
int NodeOfWorker(const std::vector<WorkerPlace>& places, size_t index) {
  if (places.empty()) return -1;
  const int node = places[index % places.size()].node;
  return node < kMaxNodes ? node : -1;
}

/// Returns a mask; bit n: some of `workers` workers are near node n.
uint32_t NodesOfWorkers(const std::vector<WorkerPlace>& places, int workers) {
  uint32_t nodes = 0;
  for (int i = 0; i < workers; ++i) {
    const int node = NodeOfWorker(places, static_cast<size_t>(i));
    if (node >= 0) nodes |= uint32_t{1} << node;
  }
  return nodes;
}

}  // namespace

/// State of one thread. Only the thread writes its counters, so a load and a store suffice.
struct Executor::Worker {
  Worker(int worker_index, int worker_node, size_t staging_bytes)
      : index(worker_index), node(worker_node), runner(staging_bytes) {
    cursor.from_the_end = worker_index % 2 != 0;
  }

  void Count(uint64_t moved, uint64_t nanoseconds) {
    Add(units, 1);
    Add(bytes, moved);
    Add(busy_nanoseconds, nanoseconds);
  }
  WorkerCounters Read() const {
    return {units.load(std::memory_order_relaxed), bytes.load(std::memory_order_relaxed),
            busy_nanoseconds.load(std::memory_order_relaxed)};
  }
  static void Add(std::atomic<uint64_t>& counter, uint64_t amount) {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  /// Returns how long to search for work from now on; 0: sleep at once.
  uint64_t BeginIdleness(const Options& options, uint64_t wake_up_ns) {
    uint64_t look_ns = 0;  // if it slept and found nothing: others were faster
    if (idle_since_ns == 0) {
      idle_since_ns = MonotonicNanoseconds();
      slept = false;
      look_ns = waits.BeginWait(wake_up_ns);
    }
    if (sleeps_at_once) return 0;
    return options.spin_nanoseconds >= 0 ? static_cast<uint64_t>(options.spin_nanoseconds)
                                         : look_ns;
  }
  void EndIdleness() {
    if (idle_since_ns == 0) return;
    waits.EndWait(MonotonicNanoseconds() - idle_since_ns, slept);
    idle_since_ns = 0;
  }

  // Only the thread itself uses these.
  WaitEstimate waits;
  uint64_t idle_since_ns = 0;
  bool slept = false;
  bool sleeps_at_once = false;  // as its last unit's execution asks
  Interludes interludes;

  const int index;
  const int node;  ///< Node whose memory is near; -1: none in particular.
  UnitRunner runner;
  WorkBoard::Cursor cursor;
  std::thread thread;
  std::atomic<bool> started{false};
  Status start_status;
  alignas(64) std::atomic<uint64_t> units{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> busy_nanoseconds{0};
};

Executor::Executor(Options options)
    : options_(std::move(options)),
      wake_up_ns_(options_.wake_up_nanoseconds),
      machine_{options_.workers, options_.cache_bytes, options_.last_level_bytes,
               options_.processors > 0 ? options_.processors
                                       : static_cast<int>(UsableProcessors().size())},
      board_(NodesOfWorkers(options_.places, options_.workers)),
      helper_(std::make_unique<Worker>(options_.workers, -1, size_t{0})) {
  Calibrate(throughput_);
}

Result<std::unique_ptr<Executor>> Executor::Create(Options options) {
  if (options.workers < 1 || options.workers > kMaxWorkers) {
    return InvalidArgument("executor: {} workers, possible are 1 to {}", options.workers,
                           kMaxWorkers);
  }
  if (options.cache_bytes == 0 || options.last_level_bytes == 0) {
    return InvalidArgument("executor: a cache of 0 bytes");
  }
  std::unique_ptr<Executor> executor(new Executor(std::move(options)));
  for (int i = 0; i < executor->options_.workers; ++i) {
    HZ_RETURN_IF_ERROR(executor->StartWorker(i));
  }
  for (const std::unique_ptr<Worker>& worker : executor->workers_) {
    worker->started.wait(false, std::memory_order_acquire);
    HZ_RETURN_IF_ERROR(worker->start_status);
  }
  return executor;
}

Status Executor::StartWorker(int index) {
  workers_.push_back(
      std::make_unique<Worker>(index, NodeOfWorker(options_.places, static_cast<size_t>(index)),
                               UsualStagingBytes(machine_)));
  Worker* const worker = workers_.back().get();
  const auto main = [this, worker] {
    if (!options_.places.empty()) {
      worker->start_status = KeepCallingThreadOn(
          options_.places[static_cast<size_t>(worker->index) % options_.places.size()].processors);
    }
    pthread_setname_np(pthread_self(), fmt::format("hz-worker-{}", worker->index).c_str());
    AskForLongSlices();
    // Release: start_status, for Create.
    worker->started.store(true, std::memory_order_release);
    worker->started.notify_one();
    WorkerLoop(*worker);
  };
  try {
    worker->thread = std::thread(main);
  } catch (const std::system_error& error) {
    workers_.pop_back();
    return ErrnoError(error.code().value(), "executor: cannot start a thread");
  }
  return Status::Ok();
}

Executor::~Executor() {
  // Sequentially consistent, like posting work: a worker about to park looks at it.
  stopping_.store(true, std::memory_order_seq_cst);
  parking_.Wake(kMaxWorkers);
  for (const std::unique_ptr<Worker>& worker : workers_) worker->thread.join();
}

void Executor::WorkerLoop(Worker& worker) {
  bool has_searched = false;  // since it last had a unit, or there was no work at all
  while (!stopping_.load(std::memory_order_relaxed)) {
    LetRanksRun(worker);
    std::optional<WorkBoard::Unit> unit = Take(worker);
    if (!unit) {
      worker.interludes.NoteRest();
      const uint64_t looks_for =
          worker.BeginIdleness(options_, wake_up_ns_.load(std::memory_order_relaxed));
      has_searched = true;
      unit = Search(worker, looks_for);
    }
    if (!unit) {
      worker.slept = true;
      const bool nothing_left = parking_.Park(worker.index, [this] {
        return board_.AnyWork() || stopping_.load(std::memory_order_seq_cst);
      });
      if (nothing_left) has_searched = false;
      continue;
    }
    worker.EndIdleness();
    if (std::exchange(has_searched, false)) WakeForLeft(*unit);
    WakeForMore(*unit);
    RunUnit(worker, *unit);
  }
}

// Lets woken ranks post their next operation before their tenant's turn has passed. The kernel may
// delay them by up to a tick, because they ran a moment ago. A tenant that is alone has nothing to
// post before its operation ends.
void Executor::LetRanksRun(Worker& worker) {
  if (shared()) worker.interludes.LetOthersRun();
}

// Prefers units whose memory is near, or lies nowhere in particular, to units that other workers
// are nearer to.
std::optional<WorkBoard::Unit> Executor::Take(Worker& worker) {
  const uint64_t elsewhere = board_.slots_away_from(worker.node);
  if (elsewhere != 0) {
    std::optional<WorkBoard::Unit> unit = board_.Take(~elsewhere, worker.cursor);
    if (unit) return unit;
  }
  return board_.Take(kAllSlots, worker.cursor);
}

// Searches for work for a limited time.
std::optional<WorkBoard::Unit> Executor::Search(Worker& worker, uint64_t nanoseconds) {
  std::optional<WorkBoard::Unit> unit;
  if (nanoseconds == 0) return unit;
  parking_.BeginSearch();
  uint64_t now = MonotonicNanoseconds();
  const uint64_t end = now + nanoseconds;
  // Together with the owner there are more threads than workers, and a thread that posts work needs
  // a processor.
  Pacer pacer(machine_.workers >= machine_.processors);
  do {
    now = pacer.Pause(now);
    unit = Take(worker);
  } while (!unit && now < end && !stopping_.load(std::memory_order_relaxed));
  parking_.EndSearch();
  return unit;
}

// A worker that has searched found a unit. Threads that posted other work meanwhile may have woken
// nobody, because this one was searching; so it wakes one, unless another still searches. It has
// ended its search before, as it does before it parks, so it sees what was left to it (see
// Parking).
void Executor::WakeForLeft(const WorkBoard::Unit& unit) {
  if (parking_.searching() > 0 || !parking_.anyone_parked()) return;
  if (board_.AnyWorkBeside(*unit.execution)) parking_.Wake(1);
}

// Wakes further workers for the units that were left when one was claimed.
void Executor::WakeForMore(const WorkBoard::Unit& unit) {
  const uint32_t reserved = unit.execution->bound_.helpable ? 1 : 0;
  if (unit.left <= reserved || !parking_.anyone_parked() || parking_.searching() > 0) return;
  const int missing = std::min(MissingLanes(unit, reserved), kDirectWakes);
  if (missing > 0) parking_.Wake(missing);
}

// Returns how many more workers should be awake when a unit was claimed. `reserved`: units that are
// left to the owner. Requires: there are others.
int Executor::MissingLanes(const WorkBoard::Unit& unit, uint32_t reserved) const {
  // The calling worker is awake, unless it is the owner who calls, and others may be.
  const int awake = machine_.workers - parking_.parked();
  const uint32_t left = unit.left - reserved;
  if (unit.execution->bound_.most_workers == 0) return Lanes(left + 1, reserved > 0) - awake;
  // Each of several bounded jobs may have its workers, so those that are awake for another job do
  // not count against this one.
  const auto bounded = static_cast<uint32_t>(bounded_lanes_.load(std::memory_order_relaxed));
  return std::min({Lanes(bounded, reserved > 0) - awake, Lanes(left, reserved > 0), unit.permits});
}

// Returns how many workers so many units are worth. More workers than processors would only take
// turns, at the cost of two wake-ups for each.
int Executor::Lanes(uint32_t units, bool owner_helps) const {
  const int processors = std::max(1, machine_.processors - (owner_helps ? 1 : 0));
  return static_cast<int>(std::min<uint32_t>(units, static_cast<uint32_t>(processors)));
}

void Executor::RunUnit(Worker& worker, const WorkBoard::Unit& unit) {
  Execution* const execution = unit.execution;
  uint32_t ended = 1;
  if (!execution->stopped().load(std::memory_order_relaxed)) {
    const BoundProgram& bound = execution->bound();
    worker.sleeps_at_once = bound.sleeps_at_once;
    const uint64_t start = MonotonicNanoseconds();
    const uint64_t bytes = worker.runner.Run(bound, unit.index, execution->stopped());
    const uint64_t nanoseconds = MonotonicNanoseconds() - start;
    worker.Count(bytes, nanoseconds);
    execution->worked_ns_.fetch_add(nanoseconds, std::memory_order_relaxed);
    worker.interludes.NoteWork(nanoseconds);
    board_.Charge(unit.place, static_cast<double>(nanoseconds) / bound.weight);
    throughput_.Learn(bound.beyond_cache, bytes, nanoseconds);
  }
  // Nobody needs the remaining units of a stopped execution, here or in other threads.
  if (execution->stopped().load(std::memory_order_relaxed)) ended += board_.TakeRest(*execution);
  board_.GivePermitBack(unit);
  const bool finished = Complete(execution, ended);
  if (finished && worker.index < options_.workers && options_.wake_owner) options_.wake_owner();
}

// Counts ended units. Returns true if they were the last: the execution is then on its way to the
// owner and must not be touched any more.
bool Executor::Complete(Execution* execution, uint32_t units) {
  // Release: publishes all that the unit wrote, the status included. Acquire: the last thread
  // passes on to the owner what all others wrote.
  if (execution->pending_.fetch_sub(units, std::memory_order_acq_rel) != units) return false;
  finished_.Push(execution);
  return true;
}

void Executor::Start(Execution* execution) {
  ++executing_;
  execution->worked_ns_.store(0, std::memory_order_relaxed);
  if (execution->units() == 0) {
    execution->phase_ = Execution::Phase::kFinished;
    finished_.Push(execution);
    return;
  }
  execution->place_ = places_.Join(execution->bound_.tenant);
  if (places_.shared() != shared()) shared_.store(places_.shared(), std::memory_order_relaxed);
  if (execution->bound_.most_workers > 0 && !job_bounds_.Admit(execution)) return;
  if (TryPost(execution)) return;
  execution->phase_ = Execution::Phase::kWaiting;
  waiting_.Push(execution);
}

bool Executor::RunAtOnce(Execution* execution) {
  const BoundProgram& bound = execution->bound_;
  if (!bound.helpable || bound.cut.units != 1 || shared()) return false;
  const uint64_t bytes = helper_->runner.Run(bound, 0, execution->stopped());
  // Not timed: reading the clock twice would take as long as the work.
  helper_->Count(bytes, 0);
  ++operations_;
  return true;
}

// Puts the execution on the board and wakes workers for it.
bool Executor::TryPost(Execution* execution) {
  if (!board_.Post(execution)) return false;
  waiting_.NotePosted(*execution);
  execution->phase_ = Execution::Phase::kPosted;
  const uint32_t reserved = execution->bound_.helpable ? 1 : 0;
  int wanted = Lanes(execution->bound_.cut.units - reserved, reserved > 0);
  if (execution->bound_.most_workers > 0) {
    const int lanes = BoundedLanes(*execution);
    bounded_lanes_.fetch_add(lanes, std::memory_order_relaxed);
    wanted = std::min(wanted, lanes);
  }
  const int missing = std::min(wanted - parking_.searching(), kDirectWakes);
  if (missing > 0) parking_.Wake(missing);
  return true;
}

void Executor::PostWaiting() {
  while (board_.has_room()) {
    Execution* const execution = waiting_.TakeNext();
    if (execution == nullptr) return;
    TryPost(execution);
  }
}

// Ends the stay of a bounded execution among its job's, and lets those go on that fit now. The
// caller has to call PostWaiting afterwards.
void Executor::LeaveJob(Execution* execution) {
  job_bounds_.Leave(execution);
  while (Execution* const next = job_bounds_.TakeNext(*execution)) waiting_.Push(next);
}

bool Executor::Help() {
  uint64_t slots = board_.helpable_slots();
  if (StillAwaits()) slots &= board_.slots_left_to_owner();
  std::optional<WorkBoard::Unit> unit;
  if (slots != 0) {
    LetRanksRun(*helper_);
    unit = board_.Take(slots, helper_->cursor);
  }
  if (!unit) {
    helper_->interludes.NoteRest();
    return false;
  }
  // Usually workers see to it. But one that found all permits taken may have gone to sleep.
  if (unit->permits != WorkBoard::kUncounted) WakeForMore(*unit);
  RunUnit(*helper_, *unit);
  return true;
}

// Anticipatory scheduling (Iyer and Druschel, SOSP 2001). A tenant that posts one small operation
// after the other has none at the moment when the owner looks for the next unit. Without the wait,
// each of its operations would come after a unit of a large one.
void Executor::BeginAwaiting(const Execution& last) {
  if (!shared() || !last.bound_.whole || !last.bound_.helpable) return;
  if (last.bound_.sleeps_at_once) return;
  if (places_.has_executions(last.place_)) return;
  const uint64_t now = MonotonicNanoseconds();
  awaited_ = {.place = last.place_,
              .weight = last.bound_.weight,
              .since_ns = now,
              .until_ns = now + kAwaitedWakeUps * wake_up_ns_.load(std::memory_order_relaxed)};
}

// The awaited tenant is charged for the wait, which therefore ends when its turn would be over.
bool Executor::StillAwaits() {
  if (awaited_.place < 0) return false;
  const uint64_t now = MonotonicNanoseconds();
  if (now < awaited_.until_ns && !places_.has_executions(awaited_.place) &&
      board_.IsFirst(awaited_.place)) {
    return true;
  }
  const uint64_t waited_ns = std::min(now, awaited_.until_ns) - awaited_.since_ns;
  board_.Charge(awaited_.place, static_cast<double>(waited_ns) / awaited_.weight);
  awaited_.place = -1;
  return false;
}

bool Executor::AwaitRanks() {
  const bool leaves_any = (board_.helpable_slots() & ~board_.slots_left_to_owner()) != 0;
  if (!leaves_any || !StillAwaits()) return false;
  if (helper_->interludes.are_short()) helper_->interludes.LetOthersRunNow();
  return true;
}

void Executor::Cancel(Execution* execution, Status reason) {
  if (execution->phase_ == Execution::Phase::kIdle) return;
  if (!execution->Stop(std::move(reason))) return;
  if (execution->phase_ == Execution::Phase::kWaiting ||
      execution->phase_ == Execution::Phase::kHeld) {
    EndUnposted(execution);
  } else if (execution->phase_ == Execution::Phase::kPosted) {
    const uint32_t rest = board_.TakeRest(*execution);
    if (rest > 0) Complete(execution, rest);
  }
}

// Hands an execution back that has not been on the board.
void Executor::EndUnposted(Execution* execution) {
  if (execution->phase_ == Execution::Phase::kWaiting) waiting_.Remove(execution);
  if (execution->bound_.most_workers > 0) LeaveJob(execution);
  places_.Leave(execution->place_);
  execution->phase_ = Execution::Phase::kFinished;
  finished_.Push(execution);
  PostWaiting();
}

Execution* Executor::TakeFinished() {
  Execution* const execution = finished_.Pop();
  if (execution == nullptr) return nullptr;
  if (execution->phase_ == Execution::Phase::kPosted) {
    board_.Retire(execution);
    waiting_.NoteRetired(*execution);
    if (execution->bound_.most_workers > 0) {
      bounded_lanes_.fetch_sub(BoundedLanes(*execution), std::memory_order_relaxed);
      LeaveJob(execution);
    }
    places_.Leave(execution->place_);
    BeginAwaiting(*execution);
    PostWaiting();
  }
  execution->phase_ = Execution::Phase::kIdle;
  --executing_;
  ++operations_;
  if (!execution->status().ok()) ++failed_operations_;
  return execution;
}

double Executor::EstimateSeconds(uint64_t bytes_read, uint64_t bytes_written) const {
  const double bytes = static_cast<double>(bytes_read) + static_cast<double>(bytes_written);
  const bool beyond_cache = bytes > static_cast<double>(machine_.last_level_bytes);
  const double shares = std::clamp(bytes / static_cast<double>(kSmallestShareBytes), 1.0,
                                   static_cast<double>(machine_.workers));
  return kOverheadSeconds + bytes / (throughput_.BytesPerSecond(beyond_cache) * shares);
}

ExecutorCounters Executor::Counters() const {
  ExecutorCounters counters;
  counters.operations = operations_;
  counters.failed_operations = failed_operations_;
  counters.worker_wakes = parking_.wakes();
  counters.owner = helper_->Read();
  counters.bytes = counters.owner.bytes;
  for (const std::unique_ptr<Worker>& worker : workers_) {
    counters.workers.push_back(worker->Read());
    counters.bytes += counters.workers.back().bytes;
  }
  return counters;
}

}  // namespace harmonaize
