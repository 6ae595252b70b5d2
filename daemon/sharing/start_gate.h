#pragma once

namespace harmonaize::daemon {

class Communicator;

/// Decides when operations between hosts may begin where jobs take turns. Thread: engine.
class StartGate {
 public:
  /// Returns whether an operation of this communicator that is ready may begin. If not,
  /// Communicator::OnPlanReady or Communicator::ReportLate follows when it may.
  virtual bool MayBegin(Communicator& communicator) = 0;
  /// Notes that an operation of the communicator has ended.
  virtual void NoteEnd(Communicator& communicator) = 0;

 protected:
  ~StartGate() = default;
};

}  // namespace harmonaize::daemon
