#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/executor/host/cut.h"
#include "src/executor/host/machine.h"
#include "src/memory/buffer.h"
#include "src/numerics/types.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// What an operation asks of the program that carries it out, on one host or on several.
struct Operands {
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kSum;
  uint64_t count = 0;  ///< Elements of a unit, as in NCCL's call.
  /// By rank of the communicator. A rank that the program does not touch may have Buffer{}.
  std::span<const Buffer> inputs;
  std::span<const Buffer> outputs;
  /// kPreMulSum: by rank, the scalar of its contribution, as numerics wants it.
  std::span<const uint64_t> scalars;
  uint64_t divisor = 1;  ///< kAvg.
  /// Whose it is, and how much of the workers' time that tenant gets while others want it, too.
  uint32_t tenant = 0;
  float weight = 1;  ///< Above 0.
};

/// One operation to execute: a host's program and the buffers it runs over. The spans are copied by
/// Bind; the program is not, and must stay as it is until the execution has been taken back.
struct Binding : Operands {
  const HostProgram* program = nullptr;
  int pieces = 1;  ///< Schedule::pieces.
  /// The owner promises to call Executor::Help until it returns false after Start: one thread less
  /// is woken then, and none at all for an operation of one unit.
  bool helpable = false;
  /// The node on which all the memory lies, as WorkerPlace::node; -1: on several, or unknown.
  int node = -1;
  /// The whole of an operation and not a step: when it ends its ranks go on, and may soon post the
  /// next one (Executor::AwaitRanks).
  bool whole = false;
  /// Other tenants want the threads too (Executor::shared): it is cut finer, so that their turns
  /// come sooner.
  bool shared = false;
};

/// What a Binding becomes: checked, copied, cut. Read-only while the execution runs.
struct BoundProgram {
  const HostProgram* program = nullptr;
  int pieces = 1;
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kSum;
  uint64_t count = 0;
  uint64_t divisor = 1;
  std::vector<Buffer> inputs;
  std::vector<Buffer> outputs;
  std::vector<uint64_t> scalars;
  Cut cut;
  bool non_temporal = false;
  bool helpable = false;  ///< As bound.
  bool whole = false;     ///< As bound.
  int node = -1;          ///< As bound.
  uint32_t tenant = 0;
  float weight = 1;
  bool beyond_cache = false;  ///< Reads and writes more than the last-level cache holds.
};

/// One run of a program, made once and bound again and again: what it needs to grow to is kept, so
/// binding allocates nothing once it has seen an operation of the same shape.
///
/// Belongs to the executor's owner thread, except between Executor::Start and the return of
/// TakeFinished, when nothing but Executor::Cancel may be called on it. It may be destroyed or
/// moved to another executor whenever no executor has it.
class Execution {
 public:
  Execution() = default;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// Prepares the run of `binding` by an executor on `machine` (Executor::machine()).
  /// Errors: kInvalidArgument for a block outside the binding, a rank without the buffer that the
  /// program uses, missing scalars, a zero divisor or sizes beyond 2^62 bytes; kInvalidUsage for a
  /// program that needs a transport, or that reduces partial results under an operator for which
  /// that would be wrong (avg, premulsum); kInternalError while the execution runs, or for a
  /// program that no checker would pass.
  Status Bind(const Binding& binding, const Machine& machine);

  /// After TakeFinished: Ok, or the reason given to Cancel.
  const Status& status() const { return status_; }

  /// Into how many units Bind has cut the work.
  uint32_t units() const { return bound_.cut.units; }

  const BoundProgram& bound() const { return bound_; }

  /// The owner's; never looked at. By convention `on_finished` is what the owner calls with an
  /// execution that TakeFinished has returned: owners that start several kinds tell them apart so.
  void* cookie = nullptr;
  void (*on_finished)(Execution* execution) = nullptr;

 private:
  friend class Executor;
  friend class WorkBoard;
  friend class FinishedList;
  friend class WaitingList;

  enum class Phase : uint8_t { kIdle, kWaiting, kPosted, kFinished };

  // For units to ask. Relaxed: one that misses the news only does work that nobody needs.
  const std::atomic<bool>& stopped() const { return stopped_; }
  // The owner alone stops, and reads status_, so the flag orders nothing. False: it has already.
  bool Stop(Status status) {
    if (stopped_.exchange(true, std::memory_order_relaxed)) return false;
    status_ = std::move(status);
    return true;
  }

  BoundProgram bound_;
  Status status_;
  Phase phase_ = Phase::kIdle;     // Of the owner.
  int place_ = 0;                  // Its tenant's: TenantPlaces. Of the owner.
  int slot_ = -1;                  // Written by the owner; read, too, by who holds a unit.
  Execution* next_ = nullptr;      // In one list at a time: waiting or finished.
  Execution* previous_ = nullptr;  // In the list of those that wait.
  std::atomic<bool> stopped_{false};
  // Units that have not ended; who takes it to zero hands the execution back.
  alignas(64) std::atomic<uint32_t> pending_{0};
};

}  // namespace harmonaize
