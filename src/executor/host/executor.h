#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "src/base/status.h"
#include "src/executor/host/execution.h"
#include "src/executor/host/machine.h"
#include "src/executor/host/parking.h"
#include "src/executor/host/tenant_turns.h"
#include "src/executor/host/throughput.h"
#include "src/executor/host/unit.h"
#include "src/executor/host/waiting_list.h"
#include "src/executor/host/work_board.h"
#include "src/executor/host/work_engine.h"

namespace harmonaize {

/// What one thread has done since it started.
struct WorkerCounters {
  uint64_t units = 0;
  uint64_t bytes = 0;  ///< Read and written.
  uint64_t busy_nanoseconds = 0;
};

/// What the executor has done since it started.
struct ExecutorCounters {
  uint64_t operations = 0;         ///< Taken by TakeFinished, or run at once.
  uint64_t failed_operations = 0;  ///< Of these, with an error or canceled.
  uint64_t bytes = 0;              ///< Read and written, by all threads.
  uint64_t worker_wakes = 0;       ///< System calls, of the owner or of another worker.
  WorkerCounters owner;            ///< What the owner did in Help and RunAtOnce.
  std::vector<WorkerCounters> workers;
};

/// Carries out host programs over bound buffers, with threads of its own: any schedule, any mix of
/// buffers. It knows no communicators and no sessions.
///
/// One thread, the owner, calls everything here. Between Execution::Bind and TakeFinished nothing
/// allocates, locks or logs, unless something fails; an idle executor uses no processor time.
///
///   execution.Bind(binding, executor.machine());
///   executor.Start(&execution);
///   while (executor.Help()) {}             // where the owner has time
///   while (Execution* done = executor.TakeFinished()) ...
///
/// Tenants whose executions run at the same time share the threads' time by their weights, and the
/// executions of each are served in turn, unit by unit. Up to 64 run at once, more wait: those of
/// one tenant in the order of Start, and the tenant goes first who has the fewest running by its
/// weight. A worker with a place near some memory takes units of
/// executions whose memory lies elsewhere (Binding::node) only when there are no others.
class Executor final : public WorkEngine {
 public:
  struct Options {
    int workers = 1;                       ///< 1 to kMaxWorkers.
    std::vector<WorkerPlace> places = {};  ///< Worker i's is places[i mod size]; empty: anywhere.
    size_t cache_bytes = size_t{1} << 20;  ///< Of one core (second level).
    size_t last_level_bytes = size_t{32} << 20;  ///< Of all cores together.
    /// Processors that there are for the workers and the owner; 0: as many as this process may use.
    /// No more of them are made to work at once.
    int processors = 0;
    /// How long waking a sleeping thread takes. A worker that runs out of work looks for more for
    /// as long as that pays, by this and by how long its last waits took, and then sleeps.
    uint64_t wake_up_nanoseconds = 5000;
    /// How long it looks instead, whatever pays; -1: the above holds.
    int64_t spin_nanoseconds = -1;
    /// Called by a worker after it has finished an execution, from several workers at once: makes
    /// the owner call TakeFinished soon. Must not block. Not called for what a call of the owner
    /// finishes: Help, Cancel, and Start where there is nothing to do.
    std::function<void()> wake_owner = {};
  };

  /// Calibrates (a few milliseconds) and starts the workers.
  /// Errors: kInvalidArgument for options out of range, kSystemError when a thread cannot be
  /// started or pinned.
  static Result<std::unique_ptr<Executor>> Create(Options options);

  /// Stops the workers after the units they run. Executions that are not finished are forgotten: no
  /// thread touches them afterwards. (So they must outlive the executor.)
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const Machine& machine() const override { return machine_; }
  bool shared() const override { return shared_.load(std::memory_order_relaxed); }

  /// Options::wake_up_nanoseconds from now on.
  void SetWakeUp(uint64_t nanoseconds) {
    wake_up_ns_.store(nanoseconds, std::memory_order_relaxed);
  }

  /// The execution belongs to the executor until TakeFinished returns it, also after Cancel.
  void Start(Execution* execution) override;
  /// False where the execution is not helpable, is more than one unit, or several tenants take
  /// turns.
  bool RunAtOnce(Execution* execution) override;
  void Cancel(Execution* execution, Status reason) override;

  /// Runs one unit in the owner's thread; false when there is none that it may run. Only executions
  /// bound as helpable are touched. A unit takes about 100 us at most.
  bool Help();
  /// Whether Help leaves what workers can do to them for a moment: the ranks of a tenant who shares
  /// the threads, and whose turn it would be, have just seen its last operation end, and usually
  /// post the next one presently. If so, lets them run.
  bool AwaitRanks();
  /// Whether TakeFinished would return one.
  bool any_finished() const { return finished_.any(); }

  /// An execution that has ended, or nullptr.
  Execution* TakeFinished();
  /// Whether an execution was started that TakeFinished has not returned.
  bool executing() const { return executing_ > 0; }

  /// Seconds that an operation on an idle executor takes, from what earlier ones took. All workers
  /// are assumed to share one that is large enough.
  double EstimateSeconds(uint64_t bytes_read, uint64_t bytes_written) const;

  /// Exact for what TakeFinished has returned; running units are not in it.
  ExecutorCounters Counters() const;

 private:
  struct Worker;

  explicit Executor(Options options);

  Status StartWorker(int index);
  void WorkerLoop(Worker& worker);
  std::optional<WorkBoard::Unit> Take(Worker& worker);
  std::optional<WorkBoard::Unit> Search(Worker& worker, uint64_t nanoseconds);
  int Lanes(uint32_t units, bool owner_helps) const;
  void RunUnit(Worker& worker, const WorkBoard::Unit& unit);
  void LetRanksRun(Worker& worker);
  void WakeForLeft(const WorkBoard::Unit& unit);
  void WakeForMore(const WorkBoard::Unit& unit);
  bool Complete(Execution* execution, uint32_t units);
  bool TryPost(Execution* execution);
  void PostWaiting();
  void BeginAwaiting(const Execution& last);
  bool StillAwaits();

  const Options options_;
  std::atomic<uint64_t> wake_up_ns_;
  const Machine machine_;
  Throughput throughput_;
  WorkBoard board_;
  FinishedList finished_;
  Parking parking_;
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<Worker>> workers_;  // by index
  std::unique_ptr<Worker> helper_;                // the owner's own, for Help
  TenantPlaces places_;
  std::atomic<bool> shared_{false};  // written by the owner
  struct {
    int place = -1;  // of the tenant; -1: none is awaited
    float weight = 1;
    uint64_t since_ns = 0;
    uint64_t until_ns = 0;
  } awaited_;
  WaitingList waiting_;
  int64_t executing_ = 0;  // started and not taken back
  uint64_t operations_ = 0;
  uint64_t failed_operations_ = 0;
};

}  // namespace harmonaize
