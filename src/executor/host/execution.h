#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/intrusive_list.h"
#include "src/base/status.h"
#include "src/executor/host/cut.h"
#include "src/executor/host/machine.h"
#include "src/memory/memory_view.h"
#include "src/numerics/types.h"
#include "src/numerics/wire_format.h"
#include "src/schedule/ir/schedule.h"

namespace harmonaize {

/// Operands that an operation passes to the program that carries it out, on one host or on several.
struct Operands {
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kSum;
  uint64_t count = 0;  ///< Elements of a unit, as in NCCL's call.
  /// Buffers by rank of the communicator. A rank that the program does not touch may have Buffer{}.
  std::span<const MemoryView> inputs;
  std::span<const MemoryView> outputs;
  /// For kPreMulSum: by rank, the scalar of its contribution, as numerics expects it.
  std::span<const uint64_t> scalars;
  uint64_t divisor = 1;  ///< Divisor of kAvg.
  /// The tenant that the operation belongs to. Its weight decides how much of the workers' time it
  /// gets while other tenants want some too.
  uint32_t tenant = 0;
  float weight = 1;  ///< Above 0.
  /// Number that tells the jobs of the tenant apart. Only a bounded operation needs it.
  uint64_t job = 0;
  /// Most threads that run units of the job's executions at a time, workers and the owner in
  /// Executor::Help together; 0: as many as there are. Where a job's executions have different
  /// bounds, each goes by its own. It begins when its threads and those of the job's bounded
  /// executions that run cannot be more. Threads of executions without a bound do not count.
  int most_workers = 0;
  /// Whether saving energy comes before speed. A worker that runs out of work after a unit of the
  /// operation sleeps at once instead of searching for more, and ranks are not awaited
  /// (Executor::AwaitRanks).
  bool sleeps_at_once = false;
};

/// Which buffers of a program hold their elements in a wire format. The program then only copies
/// and reduces, by a sum or a scaled sum, and its buffers hold one block each.
struct EncodedBuffers {
  WireFormat format = WireFormat::kSame;  ///< kSame: none of them does.
  /// By rank: 1 if the buffer holds elements in the format, else 0.
  std::span<const uint8_t> inputs;
  std::span<const uint8_t> outputs;
  bool rounds = true;  ///< WireReduceArguments::rounds.
};

/// One operation to execute: a host's program and the buffers it runs over. Bind copies the spans.
/// It does not copy the program, which must stay as it is until TakeFinished returned the
/// execution.
struct Binding : Operands {
  const HostProgram* program = nullptr;
  int pieces = 1;  ///< Schedule::pieces.
  /// By rank: elements from one unit of the buffer to the next, where the buffers hold more than
  /// these units. Empty: units lie one after the other, as in NCCL's call.
  std::span<const uint64_t> input_strides;
  std::span<const uint64_t> output_strides;
  /// The owner promises to call Executor::Help after Start until it returns false. One thread less
  /// is woken then, and none for an operation of one unit.
  bool helpable = false;
  /// Node on which all the memory lies, as WorkerPlace::node; -1: on several, or unknown.
  int node = -1;
  /// Whether this is a whole operation, not a step. When it ends its ranks go on, and may soon post
  /// the next one (Executor::AwaitRanks).
  bool whole = false;
  /// Whether other tenants want the threads too (Executor::shared). The work is then cut finer, so
  /// that their turns come sooner.
  bool shared = false;
  EncodedBuffers encoded = {};
};

/// A Binding after Bind: checked, copied and cut. Read-only while the execution runs.
struct BoundProgram {
  const HostProgram* program = nullptr;
  int pieces = 1;
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kSum;
  uint64_t count = 0;
  uint64_t divisor = 1;
  std::vector<MemoryView> inputs;
  std::vector<MemoryView> outputs;
  std::vector<uint64_t> scalars;
  std::vector<uint64_t> input_strides;   ///< As bound.
  std::vector<uint64_t> output_strides;  ///< As bound.
  WireFormat format = WireFormat::kSame;
  bool rounds = true;                    ///< As bound.
  std::vector<uint8_t> encoded_inputs;   ///< As bound; empty if the format is kSame.
  std::vector<uint8_t> encoded_outputs;  ///< Likewise.
  Cut cut;
  bool non_temporal = false;
  bool helpable = false;  ///< As bound.
  bool whole = false;     ///< As bound.
  int node = -1;          ///< As bound.
  uint32_t tenant = 0;
  float weight = 1;
  uint64_t job = 0;
  int most_workers = 0;         ///< As bound; 0 also if there are no more threads than that.
  bool sleeps_at_once = false;  ///< As bound.
  bool beyond_cache = false;  ///< Whether it reads and writes more than the last-level cache holds.
};

/// One run of a program; made once, and bound again and again. It keeps the memory it has grown to,
/// so binding an operation of a shape seen before allocates nothing.
///
/// Thread: the executor's owner. From Executor::Start until TakeFinished returns it, only
/// Executor::Cancel may be called on it. It may be destroyed or moved to another executor whenever
/// no executor has it.
class Execution : public ListNode {
 public:
  Execution() = default;
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// Prepares the run of `binding` by an executor on `machine` (Executor::machine()).
  /// Errors: kInvalidArgument for a block outside the binding, a rank without the buffer that the
  /// program uses, missing scalars or strides, a zero divisor, a negative bound or sizes beyond
  /// 2^62 bytes; kInvalidUsage for a program that needs a transport, or that reduces partial
  /// results under an operator for which that would be wrong (avg, premulsum); kInternalError while
  /// the execution runs, or for a program that no checker would pass.
  Status Bind(const Binding& binding, const Machine& machine);

  /// After TakeFinished: Ok, or the reason given to Cancel.
  const Status& status() const { return status_; }

  /// Returns the number of units into which Bind has cut the work.
  uint32_t units() const { return bound_.cut.units; }

  /// Returns the most threads that may run its units at a time, by its job's bound and by the
  /// number of units; 0: its job has no bound.
  int most_threads() const {
    return static_cast<int>(std::min(static_cast<uint32_t>(bound_.most_workers), units()));
  }

  const BoundProgram& bound() const { return bound_; }

  /// After TakeFinished: the threads' time that this run has taken, in nanoseconds.
  uint64_t worked_nanoseconds() const { return worked_ns_.load(std::memory_order_relaxed); }

  /// For the owner's use; the executor ignores both. By convention the owner calls `on_finished`
  /// with an execution that TakeFinished has returned, so owners that start several kinds of
  /// executions can tell them apart.
  void* cookie = nullptr;
  void (*on_finished)(Execution* execution) = nullptr;

 private:
  friend class Executor;
  friend class WorkBoard;
  friend class FinishedList;
  friend class JobBounds;
  friend class WaitingList;

  // kHeld: by JobBounds. kWaiting: in the WaitingList.
  enum class Phase : uint8_t { kIdle, kHeld, kWaiting, kPosted, kFinished };

  // Asked by units. Relaxed: a unit that misses the news only does work that nobody needs.
  const std::atomic<bool>& stopped() const { return stopped_; }
  // Only the owner stops an execution and reads status_, so the flag orders nothing. Returns false
  // if it was stopped already.
  bool Stop(Status status) {
    if (stopped_.exchange(true, std::memory_order_relaxed)) return false;
    status_ = std::move(status);
    return true;
  }

  BoundProgram bound_;
  Status status_;
  Phase phase_ = Phase::kIdle;  // Owner only.
  int place_ = 0;               // TenantPlaces's place of its tenant. Owner only.
  int job_place_ = 0;           // JobBounds's place of its job, if it is bounded. Owner only.
  int slot_ = -1;               // Written by the owner; also read by threads that hold a unit.
  Execution* next_ = nullptr;   // Link of the finished list.
  std::atomic<bool> stopped_{false};
  // Units that have not ended; the thread that takes it to zero hands the execution back.
  alignas(64) std::atomic<uint32_t> pending_{0};
  // Threads add to it before they count their units in pending_, which orders it for the owner.
  std::atomic<uint64_t> worked_ns_{0};
};

}  // namespace harmonaize
