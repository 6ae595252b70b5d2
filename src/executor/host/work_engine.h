#pragma once

#include "src/base/status.h"
#include "src/executor/host/execution.h"
#include "src/executor/host/machine.h"

namespace harmonaize {

/// Carries out executions over the memory that they are bound to. The executor is one, by threads
/// of this host; an engine that works on another kind of memory would be another.
///
/// Thread: one, the owner.
class WorkEngine {
 public:
  /// What Execution::Bind needs to know.
  virtual const Machine& machine() const = 0;
  /// Several tenants have started executions lately: large ones are to be bound as `shared`.
  virtual bool shared() const = 0;

  /// Starts a bound execution. It belongs to the engine until its on_finished is due, and what it
  /// is bound to must stay valid until then.
  virtual void Start(Execution* execution) = 0;
  /// Runs a bound execution to its end in the owner's thread, instead of Start: for work of a few
  /// hundred nanoseconds, which would be handed over and back for longer than that. Its on_finished
  /// is not called. False, and nothing has happened, where the engine cannot or should not.
  virtual bool RunAtOnce(Execution* execution) = 0;
  /// Makes an execution end early with status `reason`. Units that run stop after their current
  /// step, the others do not start; it still ends by its on_finished. For an execution that was
  /// started and has not ended; others are left alone.
  virtual void Cancel(Execution* execution, Status reason) = 0;

 protected:
  ~WorkEngine() = default;
};

}  // namespace harmonaize
