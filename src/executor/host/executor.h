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
#include "src/executor/host/job_bounds.h"
#include "src/executor/host/machine.h"
#include "src/executor/host/parking.h"
#include "src/executor/host/tenant_turns.h"
#include "src/executor/host/throughput.h"
#include "src/executor/host/unit.h"
#include "src/executor/host/waiting_list.h"
#include "src/executor/host/work_board.h"
#include "src/executor/host/work_engine.h"

namespace harmonaize {

/// Work that one thread has done since it started.
struct WorkerCounters {
  uint64_t units = 0;
  uint64_t bytes = 0;  ///< Read and written.
  uint64_t busy_nanoseconds = 0;
};

/// Work that the executor has done since it started.
struct ExecutorCounters {
  uint64_t operations = 0;         ///< Returned by TakeFinished, or run by RunAtOnce.
  uint64_t failed_operations = 0;  ///< Operations among these that failed or were canceled.
  uint64_t bytes = 0;              ///< Read and written, by all threads.
  uint64_t worker_wakes = 0;       ///< System calls to wake workers, by the owner or by other
                                   ///< workers.
  WorkerCounters owner;            ///< The owner's work in Help and RunAtOnce.
  std::vector<WorkerCounters> workers;
};

/// Carries out host programs over bound buffers, with threads of its own: any schedule, any mix of
/// buffers. It knows neither communicators nor sessions.
///
/// Thread: one, the owner. Between Execution::Bind and TakeFinished nothing allocates, locks or
/// logs unless something fails. An idle executor uses no processor time.
///
///   execution.Bind(binding, executor.machine());
///   executor.Start(&execution);
///   while (executor.Help()) {}             // where the owner has time
///   while (Execution* done = executor.TakeFinished()) ...
///
/// Tenants whose executions run at the same time share the threads' time by their weights, and the
/// executions of each are served in turn, unit by unit. Up to 64 run at once; more wait. The tenant
/// that has the fewest running for its weight goes first, and its executions start in the order of
/// Start; those of a job whose threads are bounded (Operands::most_workers) may first have to wait
/// for others of the job. A worker whose place is near some memory takes units of executions whose
/// memory lies elsewhere (Binding::node) only when there are no others.
class Executor final : public WorkEngine {
 public:
  struct Options {
    int workers = 1;                       ///< 1 to kMaxWorkers.
    std::vector<WorkerPlace> places = {};  ///< Worker i has places[i mod size]; empty: anywhere.
    size_t cache_bytes = size_t{1} << 20;  ///< Second-level cache of one core.
    size_t last_level_bytes = size_t{32} << 20;  ///< Cache that all cores share.
    /// Processors for the workers and the owner, of which no more work at once; 0: as many as this
    /// process may use.
    int processors = 0;
    /// Time to wake a sleeping thread. A worker that runs out of work searches for more as long as
    /// that pays, judged by this time and by how long its last waits took, and then sleeps.
    uint64_t wake_up_nanoseconds = 5000;
    /// Fixed time for which a worker searches instead; -1: the rule above applies.
    int64_t spin_nanoseconds = -1;
    /// Called by a worker after it has finished an execution, possibly by several at once, to make
    /// the owner call TakeFinished soon. Must not block. Not called for executions that the owner's
    /// own calls finish: Help, Cancel, and Start where there is nothing to do.
    std::function<void()> wake_owner = {};
  };

  /// Calibrates (a few milliseconds) and starts the workers.
  /// Errors: kInvalidArgument for options out of range, kSystemError when a thread cannot be
  /// started or pinned.
  static Result<std::unique_ptr<Executor>> Create(Options options);

  /// Stops the workers after the units they run. Executions that are not finished are forgotten,
  /// and no thread touches them afterwards; so they must outlive the executor.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const Machine& machine() const override { return machine_; }
  bool shared() const override { return shared_.load(std::memory_order_relaxed); }

  /// Replaces Options::wake_up_nanoseconds.
  void SetWakeUp(uint64_t nanoseconds) {
    wake_up_ns_.store(nanoseconds, std::memory_order_relaxed);
  }

  /// The execution belongs to the executor until TakeFinished returns it, also after Cancel.
  void Start(Execution* execution) override;
  /// Returns false where the execution is not helpable, is more than one unit, or several tenants
  /// take turns. A bound of the job's threads is not kept: the work is too short for that.
  bool RunAtOnce(Execution* execution) override;
  void Cancel(Execution* execution, Status reason) override;

  /// Runs one unit in the owner's thread; returns false when there is none that it may run. Only
  /// executions bound as helpable are touched. A unit takes about 100 us at most.
  bool Help();
  /// Returns whether Help leaves work to the workers for a moment, and lets other threads run in
  /// it. That happens after the last operation of a tenant that shares the threads, if its turn
  /// would be next: its ranks have just been woken, and usually post the next operation presently.
  bool AwaitRanks();
  /// Returns whether TakeFinished would return an execution.
  bool any_finished() const { return finished_.any(); }

  /// Returns an execution that has ended, or nullptr.
  Execution* TakeFinished();
  /// Returns whether an execution was started that TakeFinished has not returned.
  bool executing() const { return executing_ > 0; }

  /// Returns the seconds that an operation on an idle executor takes, judged by earlier ones. All
  /// workers are assumed to share an operation that is large enough.
  double EstimateSeconds(uint64_t bytes_read, uint64_t bytes_written) const;

  /// Returns the counters. They include all that TakeFinished has returned, but no running units.
  ExecutorCounters Counters() const;

 private:
  struct Worker;

  explicit Executor(Options options);

  Status StartWorker(int index);
  void WorkerLoop(Worker& worker);
  std::optional<WorkBoard::Unit> Take(Worker& worker);
  std::optional<WorkBoard::Unit> Search(Worker& worker, uint64_t nanoseconds);
  int Lanes(uint32_t units, bool owner_helps) const;
  int MissingLanes(const WorkBoard::Unit& unit, uint32_t reserved) const;
  void RunUnit(Worker& worker, const WorkBoard::Unit& unit);
  void LetRanksRun(Worker& worker);
  void WakeForLeft(const WorkBoard::Unit& unit);
  void WakeForMore(const WorkBoard::Unit& unit);
  bool Complete(Execution* execution, uint32_t units);
  bool TryPost(Execution* execution);
  void PostWaiting();
  void LeaveJob(Execution* execution);
  void EndUnposted(Execution* execution);
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
  std::unique_ptr<Worker> helper_;                // for the owner in Help
  TenantPlaces places_;
  std::atomic<bool> shared_{false};  // written by the owner
  struct {
    int place = -1;  // of the tenant; -1: no tenant is awaited
    float weight = 1;
    uint64_t since_ns = 0;
    uint64_t until_ns = 0;
  } awaited_;
  WaitingList waiting_;
  JobBounds job_bounds_;
  // Workers that the posted executions of bounded jobs may keep busy together. Written by the
  // owner; workers judge by it whether to wake another, so it may be out of date.
  std::atomic<int> bounded_lanes_{0};
  int64_t executing_ = 0;  // started and not taken back
  uint64_t operations_ = 0;
  uint64_t failed_operations_ = 0;
};

}  // namespace harmonaize
